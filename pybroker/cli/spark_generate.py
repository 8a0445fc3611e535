"""`pybroker spark generate`."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from pybroker.cli.spark_options import SparkOptions, job, spark_options

_NOW = "now"


def start_ms(text: str | None) -> int | None:
    """A time as people write it, in milliseconds; without a zone it is UTC. Raises click.BadParameter."""
    if text is None:
        return None
    if text == _NOW:
        return time.time_ns() // 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no time such as 2026-11-21T08:00:00") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command("generate")
@click.option("--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT", help="The cluster to write to.")
@click.option("--topic", required=True, help="Made if it is missing.")
@click.option("--count", required=True, type=click.IntRange(min=0), help="Number of records.")
@click.option("--size", default=1000, show_default=True, type=click.IntRange(min=0), help="Bytes of a value.")
@click.option("--partitions", default=1, show_default=True, type=click.IntRange(min=1), help="Of a topic that has to be made.")
@click.option("--keys", default=0, show_default=True, type=click.IntRange(min=0), help="Number of different keys; 0: none.")
@click.option("--skew", default=0.0, show_default=True, type=click.FloatRange(min=0), help="Zipf's exponent; 0: all keys alike.")
@click.option("--headers", default=0, show_default=True, type=click.IntRange(min=0), help="Headers of each record.")
@click.option("--tombstones", default=0, type=click.IntRange(min=0), help="Every so-manieth value is null; 0: none.")
@click.option("--codec", default="none", show_default=True, help="none, gzip, snappy, lz4 or zstd.")
@click.option("--rate", default=0.0, type=click.FloatRange(min=0), help="Records a second; 0: as fast as possible.")
@click.option("--seed", default=0, show_default=True, help="The same seed makes the same records.")
@click.option(
    "--start", metavar="TIME", help="Timestamp of the first record, 'now' or as 2026-11-21T08:00; else each its own now."
)
@click.option("--step-ms", default=1.0, show_default=True, help="Milliseconds from a timestamp to the next, with --start.")
@spark_options
def command(*, where: SparkOptions, start: str | None, **options: object) -> None:
    """Write records, the same for the same seed."""
    from pybroker.pipeline import generate  # noqa: PLC0415 (only when it runs)

    first_ms = start_ms(start)
    with job("generate", where) as spark:
        result = generate.run(spark, generate.GenerateOptions(start_ms=first_ms, **options))  # type: ignore[arg-type]
    click.echo(f"{result.records:,} records, {result.size / 1e6:,.1f} MB in {result.seconds:.1f} s")
