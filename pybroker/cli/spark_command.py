"""`pybroker spark JOB`: the jobs on Spark. Each is a module of its own, imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from pybroker.cli.lazy_group import LazyGroup

_JOBS: Final = {
    "archive": "pybroker.cli.spark_archive",
    "audit": "pybroker.cli.spark_audit",
    "doctor": "pybroker.cli.spark_doctor",
    "generate": "pybroker.cli.spark_generate",
    "mirror": "pybroker.cli.spark_mirror",
    "replay": "pybroker.cli.spark_replay",
    "report": "pybroker.cli.spark_report",
}


@click.group("spark", short_help="Run Spark jobs over the data of a broker.", cls=LazyGroup, modules=_JOBS)
def command() -> None:
    """Run Spark jobs over the data of a broker; they need pip install '.[spark]' in a clone of pybroker."""
