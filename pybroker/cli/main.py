"""The `pybroker` command. Its sub-commands are imported when they are called, so that no command pays for another."""

from __future__ import annotations

import sys
from typing import Final

import click

from pybroker import __version__
from pybroker.cli.lazy_group import LazyGroup
from pybroker.native import NativePartError

_COMMANDS: Final = {
    "adopt": "pybroker.cli.adopt_command",
    "apis": "pybroker.cli.apis_command",
    "certs": "pybroker.cli.certs_command",
    "clients": "pybroker.cli.clients_command",
    "cluster": "pybroker.cli.cluster_command",
    "completion": "pybroker.cli.completion_command",
    "config": "pybroker.cli.config_command",
    "configs": "pybroker.cli.configs_command",
    "consume": "pybroker.cli.consume_command",
    "container": "pybroker.cli.container_command",
    "copy": "pybroker.cli.copy_command",
    "directories": "pybroker.cli.directories_command",
    "doctor": "pybroker.cli.doctor_command",
    "export": "pybroker.cli.export_command",
    "groups": "pybroker.cli.groups_command",
    "import": "pybroker.cli.import_command",
    "leave": "pybroker.cli.leave_command",
    "log": "pybroker.cli.log_command",
    "produce": "pybroker.cli.produce_command",
    "records": "pybroker.cli.records_command",
    "report": "pybroker.cli.report_command",
    "spark": "pybroker.cli.spark_command",
    "start": "pybroker.cli.start",
    "status": "pybroker.cli.status_command",
    "tool": "pybroker.cli.tool_command",
    "topics": "pybroker.cli.topics_command",
    "transactions": "pybroker.cli.transactions_command",
    "wait": "pybroker.cli.wait_command",
}
_TASKS: Final = {
    "Run a broker": {
        "start": "Run a broker, or several on this machine.",
        "config": "Show the properties that a broker has.",
        "certs": "Make keys and certificates for TLS, for development.",
        "container": "Run a broker by the variables of other Kafka images.",
    },
    "Look at a cluster, pybroker's or Kafka's": {
        "status": "Show a cluster on one screen.",
        "wait": "Wait until a broker responds, a topic is there, or a group has read all.",
        "cluster": "Show the brokers, their listeners and what is wrong with partitions.",
        "report": "Write a page with numbers and pictures about topics.",
        "doctor": "Report why a client here can or cannot use a broker.",
    },
    "Work with topics, records and groups": {
        "topics": "List, describe, create, change and delete topics.",
        "produce": "Write records to a topic.",
        "consume": "Print the records of topics.",
        "copy": "Copy topics to another cluster, batch by batch, once or continuously.",
        "export": "Write topics to a folder, with settings and commits of groups.",
        "import": "Write an exported folder to a cluster.",
        "groups": "List and describe groups of consumers, and move their offsets.",
        "configs": "Show and change settings of topics, brokers and groups, and quotas.",
        "transactions": "List and describe transactions, and end one that hangs.",
        "records": "Delete the oldest records of partitions.",
    },
    "One broker of pybroker, and its files": {
        "clients": "Show the clients of a broker, and which of their requests Kafka 4 would refuse.",
        "log": "Print or check the files of a log, of pybroker or Kafka.",
        "directories": "Manage missing log directories and lost metadata.",
        "adopt": "Take over directories of Kafka, or rebuild lost metadata.",
        "leave": "Give directories back to an Apache Kafka.",
    },
    "Other": {
        "tool": "Run one of Kafka's tools, such as kafka-topics, for scripts.",
        "spark": "Run Spark jobs over the data of a broker.",
        "completion": "Print a script by which a shell completes commands and names.",
        "apis": "Print docs/apis.md: every API with its versions.",
    },
}


class RunError(click.ClickException):
    """The broker cannot continue; the message is one line for a person."""

    exit_code = 1


class ConfigurationError(click.ClickException):
    """The command line or the configuration is invalid; the message is one line for a person."""

    exit_code = 2


@click.group(cls=LazyGroup, modules=_COMMANDS, tasks=_TASKS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Run a Kafka-compatible broker, its tools and its jobs."""


def main() -> None:
    """Run the command: exit code 0, 1 for an error while running, 2 for a wrong command line or configuration."""
    try:
        sys.exit(cli.main(prog_name="pybroker", standalone_mode=True))
    except NativePartError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(RunError.exit_code)
