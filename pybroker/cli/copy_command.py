"""`pybroker copy`: copies topics to another cluster, in threads of this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pybroker.cli.cluster_options import examples, failures_in_one_line, json_option, timeout_option
from pybroker.cli.completing import topic_names
from pybroker.cli.spark_options import failures_in_one_line as failures_of_the_job
from pybroker.cli.spark_options import pair

if TYPE_CHECKING:
    from pybroker.terminal.wire import ConnectBy

DIRECTLY_S = 1.0


@click.command("copy", epilog=examples("pybroker copy orders --prefix copied. --state ./copy-of-orders"))
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option("--from", "source", metavar="CLUSTER", help="The cluster to read from: HOST:PORT, or a profile.")
@click.option("--to", "target", metavar="CLUSTER", help="The cluster to write to: HOST:PORT, or a profile.")
@click.option("--pattern", help="Copy all topics whose whole name matches this regular expression, instead of TOPIC.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=Path("pybroker-copy"),
    show_default=True,
    help="The folder in which the copy keeps how far it is, and which offset became which.",
)
@click.option("--prefix", default="", help="Put this before the names of topics in the target.")
@click.option("--rename", "renamed", multiple=True, metavar="TOPIC=NAME", help="Call TOPIC NAME in the target; may be repeated.")
@click.option("-f", "--follow", is_flag=True, help="Continue with new records, until Ctrl-C.")
@click.option(
    "--copy-retention",
    "copies_retention",
    is_flag=True,
    help="Create topics with the retention of the source; without this, they keep all records.",
)
@click.option("--allow-loss", "is_loss_allowed", is_flag=True, help="Continue when records were deleted before they were copied.")
@click.option("--workers", default=4, show_default=True, type=click.IntRange(min=1), help="Partitions to copy at a time.")
@click.option("--retry", "retry_s", default=60.0, show_default=True, help="Seconds to wait for a cluster that went away.")
@timeout_option
@json_option
def command(
    *,
    topics: tuple[str, ...],
    source: str | None,
    target: str | None,
    pattern: str | None,
    state: Path,
    renamed: tuple[str, ...],
    follow: bool,
    timeout_s: float | None,
    is_json: bool,
    **options: Any,
) -> None:
    """Copy topics to another cluster, batch by batch and unchanged where possible: each committed record exactly once.

    The side that --from or --to leaves out is the cluster that other commands use: that of $PYBROKER_BOOTSTRAP, of a profile, or
    localhost:9092. The same command continues where a stopped one ended. `pybroker spark mirror` does the same, also with Spark.
    """
    if bool(topics) == (pattern is not None):
        raise click.UsageError("give either TOPIC or --pattern")
    options["renamed"] = dict(pair("--rename", one, "TOPIC=NAME") for one in renamed)
    (from_address, connect_source), (to_address, connect_target) = _side(source, timeout_s), _side(target, timeout_s)
    from pybroker.spark.mirror import job
    from pybroker.terminal.numbers import counted
    from pybroker.terminal.output import Output

    with failures_in_one_line(None), failures_of_the_job("copy"):
        result = job.run(
            None,
            job.MirrorOptions(
                name="copy",
                path=state,
                source=from_address,
                target=to_address,
                connect_source=connect_source,
                connect_target=connect_target,
                topics=topics,
                pattern=pattern,
                interval_s=DIRECTLY_S if follow else None,
                **options,
            ),
        )
    counts, seconds = result.counts, result.seconds
    rate = counts.size / seconds / 1e6 if seconds else 0.0
    lost = f"; {counted(result.lost, 'offset')} had no records any more" if result.lost else ""
    Output(click.echo, is_json=is_json, has_colours=False).done(
        f"Copied {counted(counts.records, 'record')} in {seconds:.1f} s, {rate:.1f} MB/s{lost}",
        source=from_address,
        target=to_address,
        records=counts.records,
        bytes=counts.size,
        lost=result.lost,
        seconds=round(seconds, 3),
    )


def _side(text: str | None, timeout_s: float | None) -> tuple[str, ConnectBy]:
    """Return the address of a cluster and how to connect to it. The text is an address, a profile, or None for the cluster of
    the other commands. Raises RunError, ConfigurationError.
    """
    from pybroker.terminal.profiles import address_or_profile, target_of
    from pybroker.terminal.wire import reached

    bootstrap, profile = address_or_profile(text)
    with failures_in_one_line(None):
        target = target_of(os.environ, bootstrap=bootstrap, profile=profile, timeout_s=timeout_s)
    with failures_in_one_line(target.bootstrap):
        return target.bootstrap, reached(target)
