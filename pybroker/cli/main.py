"""The `pybroker` command. Its sub-commands are imported when they are called, so that none pays for another."""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from pybroker import __version__

_COMMANDS: Final = {
    "apis": "pybroker.cli.apis_command",
    "config": "pybroker.cli.config_command",
    "spark": "pybroker.cli.spark_command",
    "start": "pybroker.cli.start",
}


class RunError(click.ClickException):
    """The broker cannot go on; the message is one line for a person."""

    exit_code = 1


class ConfigurationError(click.ClickException):
    """What was asked for cannot be; the message is one line for a person."""

    exit_code = 2


class LazyGroup(click.Group):
    """A group that knows its commands by the names of their modules, each of which has a `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka-compatible broker."""


def main() -> None:
    """The entry point: exit code 0, 1 for an error while running, 2 for a wrong command line or configuration."""
    sys.exit(cli.main(prog_name="pybroker", standalone_mode=True))
