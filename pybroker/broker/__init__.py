"""One broker as a whole: what builds its objects, starts them and stops them, and the parts that only the whole needs.

    broker_server        the order of the start and of the stop; a process that runs a broker until a signal
    descriptors          how many file descriptors data files and connections get
    old_data             why a new metadata store does not start beside older logs
    leadership           whether a start raises the leader epochs
    disk_thread          the thread of each data directory
    periodic             work that comes round: retention, checkpoints, expiry
    gauges               what the objects of the broker show to the metrics
    dynamic_settings     what a change of a setting changes in the running broker
    lifecycle            what a command adds to the start and the stop
    ready_file           the file that a container's health check reads
    advertised           which address a client gets, by where it connects from (containers)

For commands on the data of a broker that does not run:

    known_directories    list and forget data directories
    adoption             take over data directories whose metadata was lost
"""
