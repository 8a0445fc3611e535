"""`pybroker groups`: lists and describes groups of consumers, and moves or deletes their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Where, cluster_options, confirmed, examples, yes_option
from pybroker.cli.completing import group_names, topic_names
from pybroker.cli.lazy_group import HelpfulGroup

if TYPE_CHECKING:
    from pybroker.terminal.groups import Goal


@click.group("groups", cls=HelpfulGroup)
def command() -> None:
    """List and describe groups of consumers, and move or delete their offsets."""


@command.command("list")
@cluster_options
def list_groups(*, where: Where) -> None:
    """List groups with their state, and how many records they are behind, where they have committed offsets."""
    from pybroker.terminal.output import Column, bad_if_any
    from pybroker.terminal.overview import lags

    with where.cluster() as cluster:
        rows = lags(cluster)
    where.output.rows(["group", "state", "type", "topics", Column("lag", is_bad=bad_if_any)], rows, none="There are no groups.")


@command.command("describe")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@cluster_options
def describe(*, where: Where, names: tuple[str, ...]) -> None:
    """Show members, committed offsets and lag of groups, in a row for each partition."""
    from pybroker.terminal import groups
    from pybroker.terminal.numbers import counted
    from pybroker.terminal.output import Column, bad_if_any

    output = where.output
    with where.cluster() as cluster:
        for position, name in enumerate(names):
            group = groups.described(cluster, name)
            rows = groups.partitions_of(cluster, group)
            if position:
                output.line()
            lag = groups.lag_of(row["lag"] for row in rows)
            behind = "no offsets committed" if lag is None else f"{counted(lag, 'record')} behind"
            assignor = f", {group.assignor}" if group.assignor else ""
            members = counted(len(group.members), "member")
            output.line(f"{name}: {group.state}{assignor}, {members}, {behind}", "1")
            columns: list[Column | str] = [
                "topic",
                "partition",
                "offset",
                "end",
                Column("lag", is_bad=bad_if_any),
                "client_id",
                "host",
                "member",
            ]
            output.rows(columns, [{**row, "state": group.state} for row in rows], none="No offsets are committed.")


@command.command(
    "reset",
    epilog=examples(
        "pybroker groups reset kitchen --to beginning", "pybroker groups reset kitchen --topic orders:0 --to -1 --execute"
    ),
)
@click.argument("group", shell_complete=group_names)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    help="Only this topic, or some partitions of it.",
    shell_complete=topic_names,
)
@click.option(
    "--to",
    "to",
    required=True,
    metavar="PLACE",
    help="Where to move the offsets: beginning, end, an offset, +N or -N (from the committed offset), 10m (ago), a time (UTC).",
)
@click.option("--execute", "is_executed", is_flag=True, help="Commit the new offsets.")
@cluster_options
def reset(*, where: Where, group: str, topics: tuple[str, ...], to: str, is_executed: bool) -> None:
    """Move the committed offsets of a group. Without --execute, the command only shows what would change.

    An offset that a partition does not have becomes its first or its end. The group must have no members. Without --topic, the
    command moves all offsets that the group has committed.
    """
    from pybroker.terminal import groups
    from pybroker.terminal.output import Column

    goal = _goal(to)
    with where.cluster() as cluster:
        rows = groups.planned(cluster, groups.scope(cluster, group, topics), group, goal)
        if is_executed:
            groups.commit(cluster, group, rows)
    for row in rows:
        row["executed"] = is_executed
    where.output.rows(["topic", "partition", "offset", "new_offset", "end", Column("new_lag")], rows)
    where.output.line(
        "The offsets are committed." if is_executed else "Nothing is changed: add --execute to commit these offsets."
    )


def _goal(text: str) -> Goal:
    """Parse where a reset leads. Raises UsageError."""
    from pybroker.terminal.groups import Goal
    from pybroker.terminal.numbers import when_ms

    if text in ("beginning", "earliest", "end", "latest"):
        return Goal(is_beginning=text in ("beginning", "earliest"))
    if text[:1] in "+-" and text[1:].isdecimal():
        return Goal(shift=int(text))
    at_ms = when_ms(text)
    if at_ms is not None:
        return Goal(at_ms=at_ms)
    if text.isdecimal():
        return Goal(offset=int(text))
    raise click.UsageError(f"--to {text}: must be beginning, end, an offset, +N, -N, a span such as 10m, or a time")


@command.command("delete")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@yes_option
@cluster_options
def delete(*, where: Where, names: tuple[str, ...], is_sure: bool) -> None:
    """Delete groups without members, with their committed offsets."""
    from pybroker.terminal import groups

    confirmed(f"Delete {', '.join(names)} with all committed offsets?", is_sure=is_sure)
    with where.cluster() as cluster:
        groups.delete(cluster, names)
    for name in names:
        where.output.done(f"Deleted group {name}", group=name, deleted=True)


@command.command("delete-offsets")
@click.argument("group", shell_complete=group_names)
@click.argument("topics", metavar="TOPIC[:N,N]...", nargs=-1, required=True, shell_complete=topic_names)
@yes_option
@cluster_options
def delete_offsets(*, where: Where, group: str, topics: tuple[str, ...], is_sure: bool) -> None:
    """Delete the committed offsets of a group in topics that no member reads."""
    from pybroker.terminal import groups

    confirmed(f"Delete the offsets of {group} in {', '.join(topics)}?", is_sure=is_sure)
    with where.cluster() as cluster:
        groups.delete_offsets(cluster, group, groups.scope(cluster, group, topics))
    where.output.done(f"Deleted offsets of group {group}", group=group, topics=list(topics), deleted=True)
