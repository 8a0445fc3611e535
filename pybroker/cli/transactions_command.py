"""`pybroker transactions`: what is open, and the end of what hangs."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Where, cluster_options, confirmed, examples, yes_option
from pybroker.cli.completing import topic_names, transactional_ids
from pybroker.cli.lazy_group import HelpfulGroup


@click.group("transactions", cls=HelpfulGroup)
def command() -> None:
    """List and describe transactions, and end one that is open or hangs."""


@command.command("list")
@click.option("--state", "states", multiple=True, help="List only ids in this state, such as Ongoing; may be repeated.")
@cluster_options
def list_transactions(*, where: Where, states: tuple[str, ...]) -> None:
    """List the transactional ids that coordinators know."""
    from pybroker.terminal import transactions

    with where.cluster() as cluster:
        rows = transactions.listed(cluster, states)
    where.output.rows(["transactional_id", "state", "producer_id", "coordinator"], rows, none="There are no transactional ids.")


@command.command("describe")
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True, shell_complete=transactional_ids)
@cluster_options
def describe(*, where: Where, names: tuple[str, ...]) -> None:
    """Show the state, the producer and the partitions of transactional ids."""
    from pybroker.terminal import transactions
    from pybroker.terminal.numbers import shown_time
    from pybroker.terminal.output import Column

    with where.cluster() as cluster:
        for name in names:
            row = transactions.described(cluster, name)
            columns = ["transactional_id", "state", "producer_id", "producer_epoch", "coordinator", "timeout_ms"]
            where.output.fields([*columns, Column("start_ms", shown_time, title="STARTED"), "partitions"], row)


@command.command("find-hanging")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option(
    "--older-than",
    "older",
    default="15m",
    show_default=True,
    metavar="SPAN",
    help="List only those whose last record is at least this old.",
)
@click.option("--all", "has_all", is_flag=True, help="List those that a coordinator may end, too.")
@cluster_options
def find_hanging(*, where: Where, topics: tuple[str, ...], older: str, has_all: bool) -> None:
    """List transactions that are open in a partition, and that no coordinator will end.

    Readers of committed records do not get beyond such a transaction. `pybroker transactions abort` ends it.
    """
    from pybroker.terminal import transactions
    from pybroker.terminal.numbers import now_ms, shown_time, span_ms
    from pybroker.terminal.output import Column

    if (older_ms := span_ms(older)) is None:
        raise click.UsageError(f"--older-than {older}: must be a span such as 15m")
    with where.cluster() as cluster:
        found = transactions.open_in_partitions(cluster, topics, now_ms=now_ms(), older_than_ms=older_ms)
    rows = [row for row in found if has_all or row["hangs"]]
    columns = ["topic", "partition", "start_offset", "producer_id", "producer_epoch", "transactional_id", "state"]
    last = Column("last_ms", shown_time, title="LAST RECORD")
    none = "No transaction hangs." if not has_all else "No transaction is open."
    where.output.rows([*columns, "hangs", last], rows, none=none)


@command.command(
    "abort",
    epilog=examples(
        "pybroker transactions abort cook --yes",
        "pybroker transactions abort --topic orders --partition 0 --start-offset 7 --yes",
    ),
)
@click.argument("name", metavar="[TRANSACTIONAL_ID]", required=False, shell_complete=transactional_ids)
@click.option("--topic", help="The topic in which a transaction hangs, instead of TRANSACTIONAL_ID.", shell_complete=topic_names)
@click.option("--partition", type=click.IntRange(min=0), help="The partition in which it hangs.")
@click.option("--start-offset", type=click.IntRange(min=0), help="The first offset of the transaction, as find-hanging shows it.")
@yes_option
@cluster_options
def abort(
    *, where: Where, name: str | None, topic: str | None, partition: int | None, start_offset: int | None, is_sure: bool
) -> None:
    """Abort the open transaction of an id, or one that hangs in a partition.

    The producer that has the id is fenced: it cannot write any more.
    """
    from pybroker.terminal import transactions

    is_hanging = topic is not None and partition is not None and start_offset is not None
    if (name is None) is not is_hanging or (name is not None and topic is not None):
        raise click.UsageError("name a TRANSACTIONAL_ID, or --topic, --partition and --start-offset")
    with where.cluster() as cluster:
        if name is not None:
            confirmed(f"Abort the transaction of {name}, and fence its producer?", is_sure=is_sure)
            transactions.abort(cluster, name)
            where.output.done(f"Aborted the transaction of {name}", transactional_id=name)
            return
        assert topic is not None
        assert partition is not None
        assert start_offset is not None
        confirmed(f"Abort the transaction in {topic}-{partition} from offset {start_offset}?", is_sure=is_sure)
        row = transactions.abort_in_partition(cluster, topic, partition, start_offset=start_offset)
        where.output.done(f"Aborted the transaction of producer {row['producer_id']} in {topic}-{partition}", **row)
