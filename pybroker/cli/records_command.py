"""`pybroker records`: deletes the oldest records of partitions."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Where, cluster_options, confirmed, examples, yes_option
from pybroker.cli.completing import topic_names
from pybroker.cli.lazy_group import HelpfulGroup


@click.group("records", cls=HelpfulGroup)
def command() -> None:
    """Delete the oldest records of partitions."""


@command.command("delete", epilog=examples("pybroker records delete orders:0,1 --before 1d --yes"))
@click.argument("topic", metavar="TOPIC[:N,N]", shell_complete=topic_names)
@click.option(
    "--before", "before", required=True, metavar="PLACE", help="Delete what is before: end, an offset, 10m (ago), a time (UTC)."
)
@yes_option
@cluster_options
def delete(*, where: Where, topic: str, before: str, is_sure: bool) -> None:
    """Delete the records of a topic, or of some of its partitions, before an offset or a time.

    With --before end, or an offset beyond the end, the topic is empty.
    """
    from pybroker.terminal import groups, topics
    from pybroker.terminal.numbers import when_ms
    from pybroker.tools.groups_admin import LATEST, by_topic

    at_ms = when_ms(before)
    if before != "end" and at_ms is None and not before.isdecimal():
        raise click.UsageError(f"--before {before}: must be end, an offset, a span such as 10m, or a time")
    with where.cluster() as cluster:
        partitions = by_topic(groups.chosen(cluster, topic))
        ((name, indexes),) = partitions.items()
        ends = cluster.ends(partitions, LATEST)
        if at_ms is not None:
            at = cluster.ends(partitions, at_ms)
            offsets = {index: at[name, index] if at.get((name, index), -1) >= 0 else ends[name, index] for index in indexes}
        elif before == "end":
            offsets = {index: ends[name, index] for index in indexes}
        else:
            offsets = {index: min(int(before), ends[name, index]) for index in indexes}
        shown = ", ".join(f"{index} before {offset:,}" for index, offset in sorted(offsets.items()))
        confirmed(f"Delete the records of {name} in partitions {shown}?", is_sure=is_sure)
        rows = topics.delete_records(cluster, name, offsets)
    where.output.rows(["topic", "partition", "first"], rows)
    if before.isdecimal() and at_ms is None:
        for index in (index for index, end in sorted(offsets.items()) if end < int(before)):
            where.output.line(f"Partition {index} ends before offset {int(before):,}: all its records are deleted.")
