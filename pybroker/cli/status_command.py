"""`pybroker status`: a cluster on one screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pybroker.cli.cluster_options import Where, cluster_options

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

BEHIND_MAX = 5
"""How many of the groups that are behind have a line."""


@click.command("status")
@cluster_options
def command(*, where: Where) -> None:
    """Show a cluster on one screen: brokers, topics, what is wrong, and how far groups are behind."""
    from pybroker.terminal.overview import overview

    with where.cluster() as cluster:
        found = overview(cluster)
    if where.output.is_json:
        where.output.done("", **found)
        return
    _print(where, found)


def _print(where: Where, found: Row) -> None:
    from pybroker.terminal.numbers import counted, size
    from pybroker.terminal.output import BAD, GOOD, HEADING

    output = where.output
    brokers, behind = found["brokers"], found["groups_behind"]
    unknown = f", {len(found['groups_without_lag']):,} without committed offsets" if found["groups_without_lag"] else ""
    controller = "" if found["controller"] is None else f", controller {found['controller']}"
    facts = [
        ("Cluster", f"{found['cluster']} at {where.target.bootstrap}"),
        ("Brokers", f"{len(brokers)} ({', '.join(map(str, brokers))}){controller}: {'; '.join(found['software'])}"),
        ("Topics", f"{found['topics']:,}, {counted(found['records'], 'record')}; {found['internal_topics']} internal"),
        ("Partitions", f"{found['partitions']:,}, {size(found['bytes'])} on all brokers"),
        ("Groups", f"{found['groups']:,}, {len(behind):,} behind{unknown}"),
    ]
    if found["open_transactions"] is not None:
        facts.append(("Transactions", f"{found['open_transactions']:,} open"))
    for title, text in facts:
        output.line(f"{output.styled(title.ljust(13), HEADING)} {text}")
    for group in behind[:BEHIND_MAX]:
        output.line(f"{'':13} {group['group']} is {counted(group['lag'], 'record')} behind")
    if len(behind) > BEHIND_MAX:
        output.line(f"{'':13} and {counted(len(behind) - BEHIND_MAX, 'other group')}: pybroker groups list")
    problems = [
        (found["offline"], f"Partitions without a leader: {found['offline']:,}; pybroker cluster health"),
        (
            found["under_replicated"],
            f"Partitions that lack replicas in sync: {found['under_replicated']:,}; pybroker cluster health",
        ),
        (found["failed_directories"], f"Failed directories: {', '.join(found['failed_directories'])}"),
    ]
    for is_there, text in problems:
        if is_there:
            output.line(text, BAD)
    if not any(is_there for is_there, _ in problems):
        output.line("Every partition has a leader, and all replicas are in sync.", GOOD)
