"""`pybroker spark audit`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pybroker.cli.spark_options import SparkOptions, check_topics, isolation_option, job, pair, spark_options, time_option

if TYPE_CHECKING:
    from pybroker.spark.audit.incremental import Passed
    from pybroker.spark.audit.options import AuditOptions
    from pybroker.spark.audit.sources import Tier

LOST_OR_DOUBLED: Final = 3
"""The exit code of an audit that ran to its end and found lost or doubled records."""


@click.command("audit", short_help="Compare what producers sent with what each tier has.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    required=True,
    metavar="NAME=SOURCE",
    help="A tier and its source, HOST:PORT or archive:FOLDER; repeat it in the order in which records pass the tiers.",
)
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="NAME=TOPIC",
    help="How topics are called in the tier NAME: 'dc1.{topic}' puts dc1. before each name.",
)
@click.option("--topic", "topics", multiple=True, help="Topic to audit, by the name its producers use; may be repeated.")
@click.option("--pattern", help="All topics of the first tier whose whole name matches, instead of --topic.")
@click.option(
    "--counts", metavar="HOST:PORT", help="The cluster with the producers' counts; without it, the first tier that is a cluster."
)
@click.option("--counts-topic", default="audit-counts", show_default=True, help="The topic with the producers' counts.")
@click.option("--no-counts", is_flag=True, help="Compare the tiers only with each other, without the producers' counts.")
@click.option("--bucket-s", default=60, show_default=True, type=click.IntRange(min=1), help="Width of a time bucket in seconds.")
@click.option(
    "--grace-s",
    default=120.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds after its end at which a bucket closes.",
)
@click.option("--close-all", "is_all_closed", is_flag=True, help="Close the last buckets too, because the producers have ended.")
@time_option("--from-time", "from_ms", help_text="Only buckets at or after this time (UTC).")
@time_option("--to-time", "to_ms", help_text="Only buckets before this time (UTC).")
@click.option(
    "--incremental",
    "is_incremental",
    is_flag=True,
    help="Read only what is new since the previous pass; PATH keeps the state that this needs.",
)
@click.option(
    "--every",
    "interval_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Repeat an incremental pass every SECONDS until interrupted.",
)
@click.option(
    "--keep-s",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for which late records still count after their bucket has closed; with --incremental.",
)
@click.option(
    "--pass-records",
    default=10_000_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Maximum records in a pass; with --incremental.",
)
@click.option(
    "--allow-loss", "is_loss_allowed", is_flag=True, help="Continue when records were deleted before a pass could read them."
)
@click.option("--retry-s", default=60.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@isolation_option
@spark_options
def command(
    *,
    where: SparkOptions,
    tiers: tuple[str, ...],
    renames: tuple[str, ...],
    counts: str | None,
    no_counts: bool,
    is_incremental: bool,
    interval_s: float | None,
    keep_s: float,
    pass_records: int,
    is_loss_allowed: bool,
    **options: Any,
) -> None:
    """Compare what producers sent with what each tier has, by sequence numbers, and write the result to PATH.

    The exit code is 3 when records are lost or doubled.
    """
    check_topics(options)
    is_incremental |= interval_s is not None
    if is_incremental and (options["from_ms"] is not None or options["to_ms"] is not None):
        raise click.UsageError("--incremental and --every take neither --from-time nor --to-time")
    from pybroker.spark.audit.options import AuditOptions, Incremental
    from pybroker.spark.errors import PipelineError

    how = Incremental(interval_s=interval_s, keep_s=keep_s, pass_records=pass_records, is_loss_allowed=is_loss_allowed)
    try:
        chosen = _tiers(tiers, renames)
        clusters = [tier.source for tier in chosen if tier.folder is None]
        if counts is None and not clusters and not no_counts:
            raise click.UsageError("no tier is a cluster: give --counts, the cluster with the producers' counts, or --no-counts")
        audited = AuditOptions(
            tiers=chosen,
            counts=None if no_counts else counts or clusters[0],
            incremental=how if is_incremental else None,
            **options,
        )
    except PipelineError as error:
        raise click.UsageError(str(error)) from error
    _run(where, audited)


def _run(where: SparkOptions, options: AuditOptions) -> None:
    from pybroker.spark.audit import incremental
    from pybroker.spark.audit import job as audit

    how = options.incremental
    with job("audit", where) as spark:
        if how is None:
            result = audit.run(spark, options)
        else:
            result = incremental.run(spark, options, None if how.interval_s is None else _printer())
    for line in result.summary.lines():
        click.echo(line)
    if not result.is_good:
        raise click.exceptions.Exit(LOST_OR_DOUBLED)


def _printer() -> Callable[[Passed], None]:
    """Return a function that prints a line for each pass, and the whole summary when what is lost or doubled changes."""
    verdict = None

    def print_pass(passed: Passed) -> None:
        nonlocal verdict
        summary = passed.result.summary
        if summary.verdict() != verdict and not summary.is_good:
            for line in summary.lines():
                click.echo(line)
        verdict = summary.verdict()
        closed = dt.datetime.fromtimestamp(passed.closed_ms / 1000, dt.UTC)
        click.echo(f"{passed.result.records:,} new records; closed until {closed:%Y-%m-%dT%H:%M:%SZ}; {verdict}")

    return print_pass


def _tiers(given: tuple[str, ...], renames: tuple[str, ...]) -> tuple[Tier, ...]:
    from pybroker.spark.audit.sources import SAME_NAME, Tier

    names = dict(pair("--rename", one) for one in renames)
    tiers = tuple(Tier(name, source, names.pop(name, SAME_NAME)) for name, source in (pair("--tier", one) for one in given))
    if names:
        raise click.UsageError(f"--rename {next(iter(names))}: no --tier has this name")
    return tiers
