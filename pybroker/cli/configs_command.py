"""`pybroker configs`: settings of topics, brokers and groups, and quotas of users and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pybroker.cli.cluster_options import Where, cluster_options, examples, pairs
from pybroker.cli.completing import group_names, topic_names
from pybroker.cli.lazy_group import HelpfulGroup

RESOURCES = ("topic", "broker", "group")


@click.group("configs", cls=HelpfulGroup)
def command() -> None:
    """Show and change settings of topics, brokers and groups, and quotas of users and clients.

    One option names what has the settings: --topic, --broker, --all-brokers or --group. With --user, --client or --ip, the
    settings are quotas, such as producer_byte_rate.
    """


def resource_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a resource."""
    for option in (
        click.option("--ip", metavar="ADDRESS", help="The quotas of this IP address, or of <default>."),
        click.option(
            "--client",
            "client",
            metavar="ID",
            help="The quotas of this client id, or of <default>; with --user, of that user's client.",
        ),
        click.option("--user", metavar="NAME", help="The quotas of this user, or of <default>."),
        click.option("--group", metavar="NAME", help="The settings of this group.", shell_complete=group_names),
        click.option("--all-brokers", is_flag=True, help="The settings that all brokers share."),
        click.option("--broker", metavar="ID", help="The settings of this broker."),
        click.option("--topic", metavar="NAME", help="The settings of this topic.", shell_complete=topic_names),
    ):
        function = option(function)
    return function


def _chosen(given: dict[str, Any]) -> tuple[str, str, dict[str, str]]:
    """Return the kind and the name of a resource, or an entity with quotas. Raises UsageError."""
    from pybroker.terminal.configs import DEFAULT_ENTITY

    named = {kind: given[kind] for kind in RESOURCES if given[kind] is not None}
    if given["all_brokers"]:
        named["broker"] = ""
    parts = {"user": given["user"], "client-id": given["client"], "ip": given["ip"]}
    entity = {kind: "" if name == DEFAULT_ENTITY else name for kind, name in parts.items() if name is not None}
    if len(named) + bool(entity) != 1 or (given["all_brokers"] and given["broker"] is not None):
        raise click.UsageError("name one of --topic, --broker, --all-brokers, --group, --user, --client and --ip")
    if entity:
        return "", "", entity
    ((kind, name),) = named.items()
    return kind, name, {}


@command.command("get")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@resource_options
@click.option("--all", "is_all", is_flag=True, help="Show the defaults, too.")
@cluster_options
def get(*, where: Where, names: tuple[str, ...], is_all: bool, **given: Any) -> None:
    """Show the settings that are not defaults, or those with these names."""
    from pybroker.terminal import configs

    kind, name, entity = _chosen(given)
    with where.cluster() as cluster:
        if entity:
            rows: list[Any] = [row for row in configs.quotas(cluster, entity) if not names or row["name"] in names]
            where.output.rows(["user", "client-id", "ip", "name", "value"], rows, none="No quota is set.")
            return
        rows = configs.settings(cluster, kind, name, is_all=is_all or bool(names))
    configs.check_names(f"{kind} {name}".rstrip(), names, {row["name"] for row in rows})
    chosen = [row for row in rows if not names or row["name"] in names]
    where.output.rows(["name", "value", "source"], chosen, none="No setting differs from its default: --all shows them.")


@command.command(
    "set",
    epilog=examples(
        "pybroker configs set --topic orders retention.ms=60000",
        "pybroker configs set --user alice --client shop producer_byte_rate=1000000",
    ),
)
@click.argument("settings", metavar="NAME=VALUE...", nargs=-1, required=True)
@resource_options
@cluster_options
def set_configs(*, where: Where, settings: tuple[str, ...], **given: Any) -> None:
    """Set settings, or quotas of users and clients."""
    changed = pairs("a setting", settings)
    _change(where, given, changed, ())


@command.command("unset")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@resource_options
@cluster_options
def unset(*, where: Where, names: tuple[str, ...], **given: Any) -> None:
    """Return settings to their defaults, or remove quotas."""
    _change(where, given, {}, names)


def _change(where: Where, given: dict[str, Any], changed: dict[str, str], removed: tuple[str, ...]) -> None:
    from pybroker.terminal import configs

    kind, name, entity = _chosen(given)
    meant = ""
    with where.cluster() as cluster:
        if entity:
            configs.change_quotas(cluster, entity, changed, removed)
            what = ", ".join(f"{part} {value or configs.DEFAULT_ENTITY}" for part, value in entity.items())
        else:
            meant = configs.unknown_to_brokers(cluster, changed) if kind == "broker" else ""
            configs.change(cluster, kind, name, changed, removed)
            what = f"{kind} {name}" if name else "all brokers"
    done = [*(f"{one}={value}" for one, value in changed.items()), *(f"without {one}" for one in removed)]
    where.output.done(f"Changed {what}: {', '.join(done)}", changed=what, set=changed, unset=list(removed))
    if meant:
        where.output.line(f"The brokers keep a setting that they do not know{meant}")
