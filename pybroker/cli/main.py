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
    "config": "pybroker.cli.config_command",
    "container": "pybroker.cli.container_command",
    "directories": "pybroker.cli.directories_command",
    "doctor": "pybroker.cli.doctor_command",
    "leave": "pybroker.cli.leave_command",
    "log": "pybroker.cli.log_command",
    "spark": "pybroker.cli.spark_command",
    "start": "pybroker.cli.start",
    "tool": "pybroker.cli.tool_command",
}


class RunError(click.ClickException):
    """The broker cannot continue; the message is one line for a person."""

    exit_code = 1


class ConfigurationError(click.ClickException):
    """The command line or the configuration is invalid; the message is one line for a person."""

    exit_code = 2


@click.group(cls=LazyGroup, modules=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
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
