"""`pybroker spark replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.spark_generate import start_ms
from pybroker.cli.spark_options import SparkOptions, job, spark_options

if TYPE_CHECKING:
    from pybroker.model import Offset


@click.command("replay", short_help="Write an archive back to topics.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT", help="The cluster to write to.")
@click.option("--topic", "topics", multiple=True, help="Topic of the archive; may be repeated. Without it, all topics.")
@click.option("--to", metavar="TOPIC", help="Write to this topic instead; only for a single topic.")
@click.option(
    "--from-time", metavar="TIME", help="Only records of this time or later, such as 2026-11-21T08:00; UTC, if it has no zone."
)
@click.option("--to-time", metavar="TIME", help="Only records before this time; UTC, if it has no zone.")
@click.option("--from-offset", type=click.IntRange(min=0), help="Only records from this offset of each partition.")
@click.option("--to-offset", type=click.IntRange(min=0), help="Only records before this offset of each partition.")
@click.option("--rate", default=0.0, type=click.FloatRange(min=0), help="Records per second; 0 means as fast as possible.")
@click.option("--codec", default="none", show_default=True, help="The codec of batches: none, gzip, snappy, lz4 or zstd.")
@click.option("--again", "is_again", is_flag=True, help="Write everything once more, even what was written before.")
@click.option(
    "--allow-expired", "is_expiry_allowed", is_flag=True, help="Write even records that are older than the topic's retention."
)
@click.option("--retry-s", "timeout_s", default=120.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@spark_options
def command(
    *,
    where: SparkOptions,
    from_time: str | None,
    to_time: str | None,
    from_offset: Offset | None,
    to_offset: Offset | None,
    **options: Any,
) -> None:
    """Write the archive at PATH back to topics; a second run continues where a stopped one ended."""
    from_ms, to_ms = start_ms(from_time), start_ms(to_time)
    with job("replay", where) as spark:
        from pybroker.spark.replay import job as replay
        from pybroker.spark.replay.rows import Selection

        selection = Selection(from_offset, to_offset, from_ms, to_ms)
        result = replay.run(spark, replay.ReplayOptions(selection=selection, **options))
    before = f", {result.there_before:,} were already there" if result.there_before else ""
    click.echo(f"{result.records:,} records written in {result.seconds:.1f} s{before}")
