"""`pybroker spark JOB`: the jobs of the data pipeline. Each is a module of its own, imported when it is called."""

from __future__ import annotations

import importlib
from typing import Final

import click

_JOBS: Final = {
    "archive": "pybroker.cli.spark_archive",
    "audit": "pybroker.cli.spark_audit",
    "doctor": "pybroker.cli.spark_doctor",
    "generate": "pybroker.cli.spark_generate",
    "mirror": "pybroker.cli.spark_mirror",
    "replay": "pybroker.cli.spark_replay",
}


class LazyJobs(click.Group):
    """A group that knows the jobs by the names of their modules, each of which has a `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of all jobs."""
        return sorted(_JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one job's command."""
        module = _JOBS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command


@click.group("spark", cls=LazyJobs)
def command() -> None:
    """Jobs for Spark over a broker's data; they need pip install 'pybroker[spark]'."""
