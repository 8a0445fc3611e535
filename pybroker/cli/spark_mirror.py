"""`pybroker spark mirror`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from pybroker.cli.spark_options import SparkOptions, check_topics, failures_in_one_line, job, pair, spark_options
from pybroker.model import Offset


@click.command("mirror", short_help="Copy topics to another cluster.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--source", metavar="HOST:PORT", help="The cluster to read from.")
@click.option("--target", metavar="HOST:PORT", help="The cluster to write to.")
@click.option("--topic", "topics", multiple=True, help="Topic to mirror; may be repeated.")
@click.option("--pattern", help="All topics whose whole name matches this regular expression, instead of --topic.")
@click.option("--prefix", default="", help="Prefix for the names of topics in the target.")
@click.option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="TOPIC=NAME",
    help="Call TOPIC of the source NAME in the target; may be repeated.",
)
@click.option(
    "--copy-retention",
    "copies_retention",
    is_flag=True,
    help="Create topics with the source's retention instead of an unlimited one.",
)
@click.option(
    "--every",
    "interval_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Look for new records every SECONDS until interrupted.",
)
@click.option(
    "--allow-loss", "is_loss_allowed", is_flag=True, help="Continue when records were deleted before they were mirrored."
)
@click.option("--retry-s", default=60.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@click.option("--local", "is_local", is_flag=True, help="Copy in threads of this process, without Spark.")
@click.option(
    "--workers", default=4, show_default=True, type=click.IntRange(min=1), help="Partitions to copy at a time; with --local."
)
@click.option("--origin", metavar="TOPIC:PARTITION:OFFSET", help="Print where this record of the target comes from, and exit.")
@click.option("--map", "mapped", metavar="TOPIC", help="Print how source offsets map to this target topic, and exit.")
@spark_options
def command(
    *,
    where: SparkOptions,
    path: Path,
    is_local: bool,
    origin: str | None,
    mapped: str | None,
    renamed: tuple[str, ...],
    **options: Any,
) -> None:
    """Copy topics to another cluster, batch by batch and unchanged where possible.

    PATH is the folder in which the mirror keeps which offset of the source became which offset of the target.
    """
    if origin is not None or mapped is not None:
        _look_up(path, origin, mapped)
        return
    if options["source"] is None or options["target"] is None:
        raise click.UsageError("--source and --target are needed")
    check_topics(options)
    options["renamed"] = dict(pair("--rename", one, "TOPIC=NAME") for one in renamed)
    from pybroker.spark.mirror import job as mirror

    with failures_in_one_line("mirror"), nullcontext() if is_local else job("mirror", where) as spark:
        result = mirror.run(spark, mirror.MirrorOptions(path=path, **options))
    counts, seconds = result.counts, result.seconds
    rate = counts.size / seconds / 1e6 if seconds else 0.0
    kept = f"{counts.verbatim:,} batches as they were, {counts.rebuilt:,} rebuilt"
    out = f"; {counts.aborted:,} batches of aborted transactions left out" if counts.aborted else ""
    lost = f"; {result.lost:,} offsets were deleted before they could be mirrored" if result.lost else ""
    click.echo(f"{counts.records:,} records mirrored in {seconds:.1f} s, {rate:.1f} MB/s, {kept}{out}{lost}")


def _look_up(path: Path, origin: str | None, mapped: str | None) -> None:
    from pybroker.spark.mirror.state import State

    with failures_in_one_line("mirror"):
        state = State.read(path)
        if origin is not None:
            topic, _, rest = origin.partition(":")
            partition, _, offset = rest.partition(":")
            if not (topic and partition.isdigit() and offset.isdigit()):
                raise click.UsageError(f"--origin {origin}: must be TOPIC:PARTITION:OFFSET")
            found = state.origin(topic, int(partition), offset=Offset(int(offset)))
            click.echo(f"{found.topic}:{found.partition}:{found.offset}")
        if mapped is not None:
            for number, runs in state.runs(mapped).items():
                for run in runs:
                    ends = run.source + run.count - 1, run.target + run.count - 1
                    click.echo(f"partition {number}: source {run.source}-{ends[0]} is {run.target}-{ends[1]}")
