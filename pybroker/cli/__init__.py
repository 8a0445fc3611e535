"""The command line; no logic of its own.

main, lazy_group        the `pybroker` command, whose sub-commands are imported when they are called
start                   `pybroker start`: run a broker
container_command       `pybroker container`: the entry point of the container image
directories_command     `pybroker directories`: lost log directories and lost metadata
doctor_command          `pybroker doctor`: why a client can or cannot use a cluster
tool_command            `pybroker tool`: Kafka's command line tools
apis_command, config_command    documents that are generated from the code
spark_*                 `pybroker spark`: the jobs of the pipeline
logging_setup           the form and the levels of the logs
"""
