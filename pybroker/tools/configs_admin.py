"""Requests, prints and changes the settings of a resource."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pybroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.tools.admin import Admin, check
from pybroker.tools.errors import CommandError
from pybroker.tools.target import Target, properties_of

if TYPE_CHECKING:
    from pybroker.tools.options import Options

TOPIC: Final = 2
RESOURCES: Final = {"topics": TOPIC, "brokers": 4, "broker-loggers": 8, "client-metrics": 16}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
}
SET, DELETE = 0, 1
OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


def configs_of(
    admin: Admin, resource: int, names: Sequence[str], *, has_synonyms: bool = False, broker_id: int | None = None
) -> dict[str, list[Any]]:
    """Return all settings of each resource, in the order of the broker that is asked. Raises RefusedError."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None) for name in names
        ],
        include_synonyms=has_synonyms,
        include_documentation=False,
    )
    found = {}
    for result in admin.ask(request, 4, broker_id=broker_id).results:
        check(result.error_code, result.error_message)
        found[result.resource_name] = list(result.configs)
    return found


# --- describe ---


def describe(target: Target, kind: str, name: str | None, *, is_all: bool) -> None:
    """Print the settings of one resource, or of each. Raises RefusedError, ClientError."""
    with Admin(target) as admin:
        for one in [name] if name is not None else _names(admin, kind):
            if one:
                print(f"{'All' if is_all else 'Dynamic'} configs for {kind[:-1]} {one} are:")
            else:
                print(f"Default configs for {kind} in the cluster are:")
            for config in shown(admin, kind, one, is_all=is_all, has_synonyms=True):
                synonyms = ", ".join(f"{SOURCES.get(s.source, 'UNKNOWN')}:{s.name}={_text(s.value)}" for s in config.synonyms)
                sensitive = "true" if config.is_sensitive else "false"
                print(f"  {config.name}={_text(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def shown(admin: Admin, kind: str, name: str, *, is_all: bool, has_synonyms: bool) -> list[Any]:
    """Return the settings of a resource by name: those that were changed on it, or all."""
    source = {"topics": 1, "brokers": 2 if name else 3, "client-metrics": 7}.get(kind)
    owner = _owner(admin, kind, name)
    found = configs_of(admin, RESOURCES[kind], [name], has_synonyms=has_synonyms, broker_id=owner)[name]
    return sorted((c for c in found if is_all or source in (None, c.config_source)), key=lambda config: str(config.name))


def _owner(admin: Admin, kind: str, name: str) -> int | None:
    """Return the broker that alone knows the settings of a resource; None for any, also where there is no such broker."""
    is_number = kind in ("brokers", "broker-loggers") and name.isascii() and name.isdecimal()
    return int(name) if is_number and int(name) in admin.brokers else None


def _names(admin: Admin, kind: str) -> list[str]:
    if kind == "topics":
        return sorted(topic.name for topic in admin.ask(MetadataRequest(topics=None), 9).topics)
    if kind == "client-metrics":
        response = admin.ask(ListConfigResourcesRequest(), 0)
        check(response.error_code)
        return sorted(resource.resource_name for resource in response.config_resources)
    return [*(str(broker.node_id) for broker in admin.ask(MetadataRequest(topics=[]), 9).brokers), ""]


def _text(value: str | None) -> str:
    return "null" if value is None else value


# --- alter ---


def changes_of(options: Options) -> tuple[dict[str, str], list[str]]:
    """Return the settings to add, and the names of those to delete. Raises CommandError."""
    file = options.value("add-config-file")
    added = added_configs(options.value("add-config")) if file is None else properties_of(file)
    for key in added:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise CommandError(f"Invalid character found for config key: {key}")
    return added, [key.strip() for one in options.values("delete-config") for key in one.split(",")]


def alter(target: Target, kind: str, name: str, options: Options) -> None:
    """Change a resource. Raises RefusedError, ClientError, CommandError."""
    added, deleted = changes_of(options)
    with Admin(target) as admin:
        held = {config.name for config in shown(admin, kind, name, is_all=False, has_synonyms=False)}
        if kind == "broker-loggers":
            unknown = [key for key in (*deleted, *added) if key not in held]
            if unknown:
                raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}")
        elif missing := [key for key in deleted if key not in held]:
            raise CommandError(f"Invalid config(s): {','.join(missing)}")
        changes = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in added.items()]
        changes += [AlterableConfig(name=key, config_operation=DELETE, value="") for key in deleted]
        resource = AlterConfigsResource(resource_type=RESOURCES[kind], resource_name=name, configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        for result in admin.ask(request, 1, broker_id=_owner(admin, kind, name)).responses:
            check(result.error_code, result.error_message)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def added_configs(text: str | None) -> dict[str, str]:
    """Parse the settings of --add-config: `a=1,b=[2,3]`. Raises CommandError."""
    if text is None:
        return {}
    pairs = [re.split(rf"\s*=\s*{OUTSIDE_BRACKETS}", one) for one in re.split(f",{OUTSIDE_BRACKETS}", text)]
    if any(len(pair) != 2 for pair in pairs):
        raise CommandError('requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".')
    return {key.strip(): re.sub(r"[\[\]]", "", value).strip() for key, value in pairs}
