"""`pybroker spark doctor`."""

from __future__ import annotations

import contextlib

import click

from pybroker.cli.main import RunError
from pybroker.cli.spark_options import SparkOptions, job, spark_options


@click.command("doctor", short_help="Show what Spark runs on here, and try it with a broker.")
@click.option("--bootstrap-server", "bootstrap", metavar="HOST:PORT", help="The broker to try; without it, the job starts one.")
@spark_options
def command(*, where: SparkOptions, bootstrap: str | None) -> None:
    """Show what Spark runs on here, send records to a broker and read them back."""
    from pybroker.spark import doctor
    from pybroker.spark.errors import PipelineError

    try:
        doctor.describe(click.echo, where.jars)
    except PipelineError as error:
        raise RunError(str(error)) from error
    with job("doctor", where) as spark, contextlib.ExitStack() as stack:
        click.echo(f"Spark      {spark.version} at {where.master}")
        address = bootstrap or stack.enter_context(doctor.own_broker())
        click.echo(f"round trip {doctor.round_trip(spark, address)}")
