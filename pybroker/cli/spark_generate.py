"""`pybroker spark generate`."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from pybroker.cli.spark_options import SparkOptions, job, spark_options

_NOW = "now"


def start_ms(text: str | None) -> int | None:
    """Return a time as people write it in milliseconds; a time without a zone is UTC. Raises click.BadParameter."""
    if text is None:
        return None
    if text == _NOW:
        return time.time_ns() // 1_000_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a time such as 2026-11-21T08:00:00") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command("generate", short_help="Write generated records to a topic.")
@click.option("--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT", help="The cluster to write to.")
@click.option("--topic", required=True, help="The topic to write to; it is created if it is missing.")
@click.option("--count", required=True, type=click.IntRange(min=0), help="Number of records.")
@click.option("--size", default=1000, show_default=True, type=click.IntRange(min=0), help="Bytes in each value.")
@click.option(
    "--partitions",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of partitions if the topic has to be created.",
)
@click.option(
    "--keys", default=0, show_default=True, type=click.IntRange(min=0), help="Number of different keys; 0 means no keys."
)
@click.option(
    "--skew",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Exponent of Zipf's law; 0 makes all keys equally frequent.",
)
@click.option("--headers", default=0, show_default=True, type=click.IntRange(min=0), help="Number of headers in each record.")
@click.option("--tombstones", default=0, type=click.IntRange(min=0), help="Make every Nth value null; 0 means never.")
@click.option("--codec", default="none", show_default=True, help="The codec of batches: none, gzip, snappy, lz4 or zstd.")
@click.option("--rate", default=0.0, type=click.FloatRange(min=0), help="Records per second; 0 means as fast as possible.")
@click.option("--seed", default=0, show_default=True, help="The same seed makes the same records.")
@click.option(
    "--start",
    metavar="TIME",
    help="Timestamp of the first record: 'now', or a time such as 2026-11-21T08:00, which is UTC if it has no zone. "
    "Without it, each record gets the time at which it is written.",
)
@click.option("--step-ms", default=1.0, show_default=True, help="Milliseconds from each timestamp to the next; with --start.")
@spark_options
def command(*, where: SparkOptions, start: str | None, **options: object) -> None:
    """Write generated records to a topic; the same seed makes the same records."""
    from pybroker.spark import generate

    first_ms = start_ms(start)
    with job("generate", where) as spark:
        result = generate.run(spark, generate.GenerateOptions(start_ms=first_ms, **options))  # type: ignore[arg-type]
    click.echo(f"{result.records:,} records, {result.size / 1e6:,.1f} MB in {result.seconds:.1f} s")
