"""One broker as a whole: what builds its objects, starts them and stops them, and the parts that only the whole needs.

process              a process that runs a broker until a signal, and its exit code
several              several brokers of one machine, each a process, under one parent
parent_process       whether the process that started this one has ended
broker_server        builds all objects; the order of the start and of the stop
descriptors          how many file descriptors data files and connections get
joining              opens the metadata store and reads the cluster from it
old_data             why a new metadata store does not start beside older logs
peers                connections to the other brokers of the cluster
coordinating         makes the coordinators as soon as their topics exist
replication          copies this broker's partitions from their leaders
disks, disk_thread   the thread of each data directory, and how directories are closed
leadership           whether a start raises the leader epochs
alone                settings that only several brokers can keep, for a broker that is alone
registration         what the broker registers with the cluster
settling             waits until the broker has done what it has begun
passes, periodic     work that is repeated: retention, checkpoints, expiry
time_slice           has the scheduler let the loop run soon on a busy machine
free_memory          gives memory back to the system after a peak
standard_streams     standard error and standard output, for which the broker does not wait
gauges               what the objects of the broker show to the metrics
group_gauges         what the coordinator of groups shows to them
dynamic_settings     what a change of a setting changes in the running broker
kept_clients         the counts of clients, kept over restarts
authorizing          makes the authorizer, and keeps it at the ACLs of the cluster
limiting             holds clients to the quotas of the cluster
handling             what tests put in front of the dispatcher: faults, and a trail of the requests
first_users          the users for SCRAM that a start adds
logins               the gates of the listeners whose clients log in, and the login at other brokers
token_expiry         removes expired delegation tokens
bearer_keys          the keys that verify the tokens of clients
http_listeners       the listeners over HTTP: metrics, and the page with its API
state                what the broker has in work, as the page shows it
listening            where the broker listens, and the TLS of its listeners
lifecycle            what a command adds to the start and the stop
ready_file           the file that a health check reads to find the broker
"""
