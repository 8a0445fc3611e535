"""`pybroker cluster`: the brokers of a cluster."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Where, cluster_options
from pybroker.cli.lazy_group import HelpfulGroup


@click.group("cluster", cls=HelpfulGroup)
def command() -> None:
    """Show the brokers, their listeners and what is wrong with partitions."""


@command.command("brokers")
@cluster_options
def brokers(*, where: Where) -> None:
    """List the brokers with their address, software, partitions and disk. The controller has a star."""
    from pybroker.terminal.brokers import brokers as rows_of
    from pybroker.terminal.numbers import size
    from pybroker.terminal.output import Column, bad_if_any

    with where.cluster() as cluster:
        rows = rows_of(cluster)
    where.output.rows(
        [
            "broker",
            Column("is_controller", lambda is_it: "*" if is_it else "", title=" "),
            "address",
            "software",
            "leads",
            "replicas",
            Column("bytes", size, title="SIZE"),
            Column("free_bytes", size, title="FREE"),
            *([Column("failed_directories", is_bad=bad_if_any)] if any(row["failed_directories"] for row in rows) else []),
        ],
        rows,
    )


@command.command("listeners")
@cluster_options
def listeners(*, where: Where) -> None:
    """List the listeners of each broker, and the addresses that it gives to clients."""
    from pybroker.terminal.brokers import brokers as rows_of

    with where.cluster() as cluster:
        rows = [{name: row[name] for name in ("broker", "address", "listeners", "advertised")} for row in rows_of(cluster)]
    where.output.rows(["broker", "address", "listeners", "advertised"], rows)


@command.command("health")
@cluster_options
def health(*, where: Where) -> None:
    """List partitions without a leader or with replicas that are not in sync. The exit code is 1 if there are any."""
    from pybroker.terminal import topics
    from pybroker.terminal.output import Column

    with where.cluster() as cluster:
        rows = [
            {
                "topic": topic.name,
                "partition": one.partition_index,
                "leader": None if one.leader_id < 0 else one.leader_id,
                "replicas": list(one.replica_nodes),
                "in_sync": list(one.isr_nodes),
            }
            for topic in topics.found(cluster)
            for one in topic.partitions
            if one.leader_id < 0 or topics.is_under_replicated(one)
        ]
    leader = Column("leader", is_bad=lambda leader: leader is None)
    where.output.rows(
        ["topic", "partition", leader, "replicas", "in_sync"],
        rows,
        none="Every partition has a leader, and all replicas are in sync.",
    )
    if rows:
        raise click.exceptions.Exit(1)
