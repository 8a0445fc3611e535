"""`pybroker wait`: until a broker responds, a topic is there, or a group has read all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples
from pybroker.cli.completing import group_names, topic_names

if TYPE_CHECKING:
    from pybroker.terminal.session import Cluster

PAUSE_S: Final = 0.2
ATTEMPT_S: Final = 5.0


class TooLateError(click.ClickException):
    """The time is over; the message is one line for a person."""

    exit_code = 3


@click.command("wait", epilog=examples("pybroker wait --for 30", "pybroker wait --topic orders --group kitchen --lag 100"))
@click.option(
    "--topic",
    "topics",
    multiple=True,
    help="Wait until this topic exists and each of its partitions has a leader; may be repeated.",
    shell_complete=topic_names,
)
@click.option("--group", help="Wait until this group has read all records of its topics.", shell_complete=group_names)
@click.option("--lag", "lag_max", default=0, show_default=True, help="With --group: how many records the group may be behind.")
@click.option(
    "--brokers", default=1, show_default=True, type=click.IntRange(min=1), help="Wait until this many brokers are live."
)
@click.option(
    "--for", "wait_s", default=60.0, show_default=True, type=click.FloatRange(min=0), metavar="SECONDS", help="How long to wait."
)
@cluster_options
def command(*, where: Where, topics: tuple[str, ...], group: str | None, lag_max: int, brokers: int, wait_s: float) -> None:
    """Wait until a broker responds; with --topic and --group, until topics exist, and until a group has read all.

    The exit code is 3 when that is not so in time.
    """
    from pybroker.terminal.session import EXPECTED, failed

    end = time.monotonic() + wait_s
    while True:
        where.target.properties["request.timeout.ms"] = str(round(1000 * min(ATTEMPT_S, max(1.0, end - time.monotonic()))))
        try:
            with where.cluster() as cluster:
                missing = _missing(cluster, topics, group, lag_max=lag_max, brokers=brokers)
        except EXPECTED as error:
            missing = str(failed(error, where.target.bootstrap))
        if missing is None:
            where.output.done("Ready", ready=True)
            return
        if time.monotonic() >= end:
            raise TooLateError(f"not ready after {wait_s:g} s: {missing}")
        time.sleep(PAUSE_S)


def _missing(cluster: Cluster, topics: tuple[str, ...], group: str | None, *, lag_max: int, brokers: int) -> str | None:
    """Return what there is not yet; None when there is all."""
    metadata = cluster.metadata(topics)
    if len(metadata.brokers) < brokers:
        return f"{len(metadata.brokers)} of {brokers} brokers are live"
    for topic in metadata.topics:
        if topic.error_code or not topic.partitions:
            return f"topic {topic.name} does not exist"
        if leaderless := [one.partition_index for one in topic.partitions if one.leader_id < 0]:
            return f"{topic.name}-{leaderless[0]} has no leader"
    return None if group is None else _behind(cluster, group, lag_max)


def _behind(cluster: Cluster, group: str, lag_max: int) -> str | None:
    from pybroker.terminal import groups
    from pybroker.terminal.numbers import counted

    rows = groups.partitions_of(cluster, cluster.described(group))
    if not rows:
        return f"group {group} has committed no offsets"
    if unknown := [row for row in rows if row["lag"] is None and row["end"]]:
        return f"group {group} has no offset in {unknown[0]['topic']}-{unknown[0]['partition']}"
    lag = sum(row["lag"] or 0 for row in rows)
    return f"group {group} is {counted(lag, 'record')} behind" if lag > lag_max else None
