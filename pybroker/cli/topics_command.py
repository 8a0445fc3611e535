"""`pybroker topics`: lists, describes, creates, changes and deletes topics."""

from __future__ import annotations

import click

from pybroker.cli.cluster_options import Where, cluster_options, confirmed, examples, pairs, yes_option
from pybroker.cli.completing import topic_names
from pybroker.cli.lazy_group import HelpfulGroup

_SETTINGS = click.option(
    "--config", "settings", multiple=True, metavar="NAME=VALUE", help="Set a setting of the topic; may be repeated."
)


@click.group("topics", cls=HelpfulGroup)
def command() -> None:
    """List, describe, create, change and delete topics."""


@command.command("list", epilog=examples("pybroker topics list", "pybroker topics list 'order*' --json"))
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option("--internal", "has_internal", is_flag=True, help="List internal topics, too.")
@cluster_options
def list_topics(*, where: Where, names: tuple[str, ...], has_internal: bool) -> None:
    """List topics with their partitions, replicas, records and size. TOPIC may be a pattern, such as 'order*'."""
    from pybroker.terminal import topics
    from pybroker.terminal.numbers import size
    from pybroker.terminal.output import Column, bad_if_any

    with where.cluster() as cluster:
        rows = topics.listing(cluster, names, has_internal=has_internal)
    columns: list[Column | str] = ["topic", "partitions", "replicas", "records", Column("bytes", size, title="SIZE")]
    problems = [problem for problem in ("under_replicated", "offline") if any(row[problem] for row in rows)]
    columns += [Column(problem, is_bad=bad_if_any) for problem in problems]
    where.output.rows(columns, rows, none="There are no topics: pybroker topics create NAME")


@command.command("describe")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--configs", "has_configs", is_flag=True, help="Show all settings, not only those that the topic itself has.")
@cluster_options
def describe(*, where: Where, names: tuple[str, ...], has_configs: bool) -> None:
    """Show the partitions and the settings of topics."""
    from pybroker.terminal import configs, topics
    from pybroker.terminal.numbers import size
    from pybroker.terminal.output import Column

    output = where.output
    with where.cluster() as cluster:
        for position, topic in enumerate(topics.found(cluster, names)):
            row = dict(topics.description(topic))
            partitions = topics.partitions_of(cluster, [topic])
            settings = configs.settings(cluster, "topic", topic.name, is_all=has_configs)
            if output.is_json:
                where.output.done("", **row, of_partitions=partitions, configs={one["name"]: one["value"] for one in settings})
                continue
            if position:
                output.line()
            output.fields(["topic", "id", "partitions", "replicas"], row)
            for one in settings:
                output.line(f"{one['name']}={one['value']}")
            output.line()
            leader = Column("leader", is_bad=lambda leader: leader is None)
            size_column = Column("bytes", size, title="SIZE")
            output.rows(["partition", leader, "replicas", "in_sync", "first", "end", "records", size_column], partitions)


@command.command(
    "create",
    epilog=examples(
        "pybroker topics create orders --partitions 6", "pybroker topics create menu --config cleanup.policy=compact"
    ),
)
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="The number of partitions; by default the broker's num.partitions."
)
@click.option(
    "-r",
    "--replicas",
    type=click.IntRange(min=1, max=32767),
    help="The number of replicas; by default the broker's default.replication.factor.",
)
@_SETTINGS
@click.option(
    "--if-not-exists", "may_exist", is_flag=True, help="Leave a topic as it is if it exists; without this, it is an error."
)
@cluster_options
def create(
    *,
    where: Where,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    may_exist: bool,
) -> None:
    """Create topics."""
    from pybroker.terminal import topics
    from pybroker.terminal.numbers import counted

    with where.cluster() as cluster:
        rows = topics.create(
            cluster,
            names,
            partitions=partitions or -1,
            replicas=replicas or -1,
            settings=pairs("--config", settings),
            may_exist=may_exist,
        )
    for row in rows:
        what = f"Created topic {row['topic']}" if row["created"] else f"Topic {row['topic']} exists"
        count = row["partitions"]
        where.output.done(f"{what} with {counted(count, 'partition')}" if count else what, **row)


@command.command(
    "alter",
    epilog=examples("pybroker topics alter orders --partitions 12", "pybroker topics alter orders --config retention.ms=60000"),
)
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="Add partitions until the topic has this many.")
@_SETTINGS
@click.option(
    "--unset",
    "unset",
    multiple=True,
    metavar="NAME",
    help="Remove a setting of the topic, so that the broker's holds; may be repeated.",
)
@cluster_options
def alter(*, where: Where, name: str, partitions: int | None, settings: tuple[str, ...], unset: tuple[str, ...]) -> None:
    """Add partitions to a topic, or change its settings."""
    from pybroker.terminal import configs, topics

    if partitions is None and not settings and not unset:
        raise click.UsageError("give --partitions, --config or --unset")
    with where.cluster() as cluster:
        topics.found(cluster, [name])
        if partitions is not None:
            topics.add_partitions(cluster, name, partitions)
        if settings or unset:
            configs.change(cluster, "topic", name, pairs("--config", settings), unset)
    where.output.done(f"Changed topic {name}", topic=name)


@command.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--if-exists", "may_be_missing", is_flag=True, help="Continue when a topic does not exist.")
@yes_option
@cluster_options
def delete(*, where: Where, names: tuple[str, ...], may_be_missing: bool, is_sure: bool) -> None:
    """Delete topics with all of their records. TOPIC may be a pattern; the command asks before it deletes."""
    from pybroker.terminal import topics

    with where.cluster() as cluster:
        wanted = []
        for name in names:
            is_pattern = any(sign in name for sign in "*?[")
            wanted += [one.name for one in topics.found(cluster, [name])] if is_pattern else [name]
        confirmed(f"Delete {', '.join(wanted)} with all records?", is_sure=is_sure)
        deleted = topics.delete(cluster, list(dict.fromkeys(wanted)), may_be_missing=may_be_missing)
    for name in deleted:
        where.output.done(f"Deleted topic {name}", topic=name, deleted=True)
