"""The command line; no logic of its own.

A command imports what it needs inside a function, when it runs. So each command, and `pybroker --help`, starts without what only
others need.

main, lazy_group        the `pybroker` command, whose sub-commands are imported when they are called
cluster_options         options, output and errors of all commands for a cluster, whose work is in `pybroker/terminal/`
topics_command, groups_command, configs_command, transactions_command, records_command    `pybroker topics`, and so on
cluster_command, status_command    `pybroker cluster`, `pybroker status`: the brokers, and all on one screen
produce_command, consume_command    `pybroker produce`, `pybroker consume`
copy_command, export_command, import_command    records to another cluster, to a folder and back
completion_command, completing    `pybroker completion`: for shells; the names of a cluster that shells complete
report_command          `pybroker report`: a page about topics
wait_command            `pybroker wait`: until something is there
start                   `pybroker start`: run a broker
private_files           the modes of a broker's files
several_brokers         `pybroker start --brokers N`: run several on one machine
container_command       `pybroker container`: the entry point of the container image
adopt_command           `pybroker adopt`: log directories of an Apache Kafka, or of this broker without its metadata
leave_command           `pybroker leave`: the way back to an Apache Kafka
directories_command     `pybroker directories`: lost log directories and lost metadata
log_command             `pybroker log`: prints and checks the files of a log
clients_command         `pybroker clients`: what the clients of a broker use, and what Kafka 4 would refuse
doctor_command          `pybroker doctor`: why a client can or cannot use a cluster
tool_command            `pybroker tool`: Kafka's command line tools
certs_command                   keys and certificates for development
apis_command, config_command    documents that are generated from the code
spark_command, spark_options    `pybroker spark`, and the options that all of its jobs have
spark_generate, spark_archive, spark_replay, spark_mirror, spark_audit, spark_report, spark_doctor    a job each
logging_setup           the form and the levels of the logs
"""
