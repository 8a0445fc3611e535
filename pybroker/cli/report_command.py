"""`pybroker report`: writes a page about topics, from processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Where, cluster_options
from pybroker.cli.completing import topic_names
from pybroker.cli.consume_command import place_option
from pybroker.cli.spark_report import check_packages, done

if TYPE_CHECKING:
    from pybroker.spark.report.plan import Wanted
    from pybroker.terminal.places import Place


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option("--pattern", help="Report on all topics whose whole name matches this regular expression, instead of TOPIC.")
@place_option("--from", "begin", help_text="Where to begin: an offset, -N (the last N), 10m (ago), a time (UTC).")
@place_option("--until", "end", help_text="Where to end, before this place: an offset, 10m (ago), a time (UTC).")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Read only N offsets of each partition, spread evenly.")
@click.option("--summary", "has_summary", is_flag=True, help="Write a summary in JSON beside the page.")
@click.option("--workers", default=4, show_default=True, type=click.IntRange(min=1), help="Partitions to read at a time.")
@cluster_options
def command(
    *,
    where: Where,
    path: Path,
    topics: tuple[str, ...],
    pattern: str | None,
    begin: Place | None,
    end: Place | None,
    sample: int | None,
    has_summary: bool,
    workers: int,
) -> None:
    """Write a page with numbers and pictures about topics to PATH: a folder, or a file whose name ends in .html.

    Without TOPIC and --pattern, the page is about all topics but the internal ones. The command needs numpy, pyarrow and
    matplotlib, which pip install '.[spark]' brings. `pybroker spark report` does the same on Spark.
    """
    if topics and pattern is not None:
        raise click.UsageError("give TOPIC or --pattern, not both")
    wanted = _wanted(begin, end, sample)
    check_packages("pybroker report needs")
    from pybroker.spark.report import job
    from pybroker.terminal.wire import RETRY_S, reached

    result = job.run(
        None,
        job.ReportOptions(
            bootstrap=where.target.bootstrap,
            connect=reached(where.target),
            path=path,
            topics=topics,
            pattern=pattern,
            wanted=wanted,
            has_summary=has_summary,
            retry_s=RETRY_S,
            workers=workers,
        ),
    )
    where.output.done(
        done(result),
        page=str(result.page),
        summary=None if result.summary is None else str(result.summary),
        topics=[topic.name for topic in result.report.topics],
        records=result.records,
        bytes=result.size,
        seconds=round(result.seconds, 3),
    )


def _wanted(begin: Place | None, end: Place | None, sample: int | None) -> Wanted:
    """Return the offsets to read. Raises UsageError for places that leave none, or that a report does not know."""
    from pybroker.model import Offset
    from pybroker.spark.report.plan import Wanted
    from pybroker.terminal.consuming import BEGINNING, END

    begin, end = begin or BEGINNING, end or END
    if begin == END or end == BEGINNING or begin.last == 0:
        raise click.UsageError("there is nothing before the beginning, and nothing behind the end")
    if end.last is not None:
        raise click.UsageError(f"--until -{end.last}: must be an offset, a span such as 10m, or a time (UTC)")
    return Wanted(
        from_offset=None if begin.offset is None else Offset(begin.offset),
        to_offset=None if end.offset is None else Offset(end.offset),
        from_ms=begin.time,
        to_ms=end.time,
        last=begin.last,
        sample=sample,
    )
