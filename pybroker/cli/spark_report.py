"""`pybroker spark report`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.main import RunError
from pybroker.cli.spark_options import SparkOptions, failures_in_one_line, job, spark_options, time_option

if TYPE_CHECKING:
    from pybroker.spark.report.job import ReportResult


@click.command("report", short_help="Write a page with numbers and pictures about topics.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT", help="The cluster to read from.")
@click.option(
    "--topic", "topics", multiple=True, help="Topic to report on; may be repeated. Without it and --pattern: all topics."
)
@click.option("--pattern", help="All topics whose whole name matches this regular expression, instead of --topic.")
@click.option("--from-offset", type=click.IntRange(min=0), help="Only records from this offset of each partition.")
@click.option("--to-offset", type=click.IntRange(min=0), help="Only records before this offset of each partition.")
@time_option("--from-time", "from_ms", help_text="Start at the first record of this time (UTC) or later.")
@time_option("--to-time", "to_ms", help_text="End before the first record of this time (UTC) or later.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N offsets of each partition.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Only N offsets of each partition, spread evenly.")
@click.option("--local", "is_local", is_flag=True, help="Count in processes of this machine, without Spark and Java.")
@click.option(
    "--workers", default=4, show_default=True, type=click.IntRange(min=1), help="Partitions to read at a time; with --local."
)
@click.option("--json", "has_summary", is_flag=True, help="Write a summary in JSON beside the page.")
@click.option("--retry-s", default=60.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@spark_options
def command(
    *,
    where: SparkOptions,
    path: Path,
    bootstrap: str,
    topics: tuple[str, ...],
    pattern: str | None,
    has_summary: bool,
    retry_s: float,
    is_local: bool,
    workers: int,
    **wanted: Any,
) -> None:
    """Write a page with numbers and pictures about topics to PATH: a folder, or a file whose name ends in .html."""
    if topics and pattern is not None:
        raise click.UsageError("give --topic or --pattern, not both")
    if is_local:
        check_packages("--local needs no Spark, but")
    from pybroker.spark.report import job as report
    from pybroker.spark.report.plan import Wanted

    options = report.ReportOptions(
        bootstrap=bootstrap,
        path=path,
        topics=topics,
        pattern=pattern,
        wanted=Wanted(**wanted),
        has_summary=has_summary,
        retry_s=retry_s,
        workers=workers,
    )
    with failures_in_one_line("report"), nullcontext() if is_local else job("report", where) as spark:
        result = report.run(spark, options)
    click.echo(done(result))


def done(result: ReportResult) -> str:
    """Return what was done, in a line."""
    from pybroker.terminal.numbers import counted

    what = f"{counted(len(result.report.topics), 'topic')}, {counted(result.records, 'record')}, {result.size / 1e6:,.1f} MB"
    return f"{what} read in {result.seconds:.1f} s: {result.page}"


def check_packages(what: str) -> None:
    """Raise RunError, which begins with `what`, when a package is missing that counting or drawing needs."""
    import importlib.util

    missing = [name for name in ("numpy", "pyarrow", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise RunError(f"{what} {', '.join(missing)}: pip install {' '.join(missing)}")
