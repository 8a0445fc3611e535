"""Settings of topics, brokers and groups, and quotas of users and clients."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.listed import did_you_mean
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pybroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pybroker.security.quotas.entity import NAMES
from pybroker.terminal.session import Cluster, FailedError, check

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

RESOURCES: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
OWN_SOURCES: Final = {"topic": {1}, "broker": {2, 3, 4}, "broker-logger": {6}, "client-metrics": {7}, "group": {8}}
"""The sources of settings that differ from the default, for each kind of resource."""
SOURCES: Final = {
    1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default", 6: "logger", 7: "client-metrics", 8: "group",
}  # fmt: skip
SET, DELETE = 0, 1
QUOTAS: Final = ("user", "client-id", "ip")
OF_LISTENER: Final = "listener.name."
MISTAKES: Final = {ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST}
"""The errors of brokers for settings whose names they do not know."""
DEFAULT_ENTITY: Final = "<default>"
EXACT, OF_DEFAULT, ANY = 0, 1, 2


def settings(cluster: Cluster, kind: str, name: str, *, is_all: bool) -> list[dict[str, Any]]:
    """Return a row for each setting of a resource, by default only for those that are set. Raises FailedError."""
    resource = DescribeConfigsResource(resource_type=RESOURCES[kind], resource_name=name, configuration_keys=None)
    (found,) = cluster.call(DescribeConfigsRequest(resources=[resource]), broker_id=_owner(cluster, kind, name)).results
    check(
        f"{kind} {name}".rstrip(),
        found.error_code,
        found.error_message,
        lambda: did_you_mean(name, topic_names(cluster)) if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else "",
    )
    return [
        {
            "name": one.name,
            "value": None if one.is_sensitive else one.value,
            "source": SOURCES.get(one.config_source, "unknown"),
            "is_sensitive": bool(one.is_sensitive),
            "is_read_only": bool(one.read_only),
        }
        for one in sorted(found.configs, key=lambda one: str(one.name))
        if is_all or one.config_source in OWN_SOURCES[kind]
    ]


def change(cluster: Cluster, kind: str, name: str, changed: Mapping[str, str], unset: Sequence[str]) -> None:
    """Set and unset settings of a resource. Raises FailedError.

    Brokers accept the removal of a setting of a topic or a group that they do not know; this function does not.
    """
    if kind in ("topic", "group") and unset:
        check_names(f"{kind} {name}", unset, {row["name"] for row in settings(cluster, kind, name, is_all=True)})
    configs = [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in changed.items()]
    configs += [AlterableConfig(name=key, config_operation=DELETE, value=None) for key in unset]
    resource = AlterConfigsResource(resource_type=RESOURCES[kind], resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (result,) = cluster.call(request, broker_id=_owner(cluster, kind, name)).responses

    def meant() -> str:
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return did_you_mean(name, topic_names(cluster))
        if result.error_code not in MISTAKES:
            return ""
        return suggestion([*changed, *unset], [row["name"] for row in settings(cluster, kind, name, is_all=True)])

    check(f"{kind} {name}".rstrip(), result.error_code, result.error_message, meant)


def check_names(what: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise FailedError for settings that are not known."""
    if missing := [name for name in names if name not in known]:
        raise FailedError(f"{what} has no setting {', '.join(missing)}{did_you_mean(missing[0], known)}")


def topic_names(cluster: Cluster) -> list[str]:
    """Return the names of all topics."""
    return [str(one.name) for one in cluster.metadata().topics if one.name is not None]


def unknown_to_brokers(cluster: Cluster, names: Iterable[str]) -> str:
    """Return what may have been meant by a setting of brokers, which they accept although they do not know it."""
    known = [row["name"] for row in settings(cluster, "broker", str(min(cluster.brokers)), is_all=True)]
    return suggestion([name for name in names if not name.startswith(OF_LISTENER)], known)


def suggestion(names: Iterable[str], known: Collection[str]) -> str:
    """Return what may have been meant by the first of these names that is not known."""
    return next((did_you_mean(name, known) for name in names if name not in known), "")


def _owner(cluster: Cluster, kind: str, name: str) -> int | None:
    """Return the broker that alone knows the settings of a resource; None for any. Raises FailedError."""
    if kind not in ("broker", "broker-logger") or not name:
        return None
    if not name.isascii() or not name.isdecimal() or int(name) not in cluster.brokers:
        known = ", ".join(map(str, sorted(cluster.brokers)))
        raise FailedError(f"{kind} {name}: there is no such broker; there are {known}")
    return int(name)


# --- quotas ---


def quotas(cluster: Cluster, entity: Mapping[str, str]) -> list[Row]:
    """Return a row for each quota of entities that have these parts; an empty name is the default entity. Raises FailedError."""
    components = [
        ComponentData(entity_type=kind, match_type=OF_DEFAULT if not name else EXACT, match=name or None)
        for kind, name in entity.items()
    ]
    response = cluster.call(DescribeClientQuotasRequest(components=components, strict=False))
    check("quotas", response.error_code, response.error_message)
    rows: list[Row] = []
    for entry in response.entries or ():
        parts = {one.entity_type: one.entity_name or DEFAULT_ENTITY for one in entry.entity}
        rows += [{**{kind: parts.get(kind) for kind in QUOTAS}, "name": one.key, "value": one.value} for one in entry.values]
    return sorted(rows, key=lambda row: tuple(str(row[key] or "") for key in (*QUOTAS, "name")))


def change_quotas(cluster: Cluster, entity: Mapping[str, str], changed: Mapping[str, str], unset: Sequence[str]) -> None:
    """Set and unset quotas of one entity. Raises FailedError."""
    operations = []
    for key, text in changed.items():
        try:
            operations.append(OpData(key=key, value=float(text), remove=False))
        except ValueError:
            if key.startswith("SCRAM-"):
                raise FailedError(f"{key} is no quota: pybroker tool kafka-configs sets the credentials of a user") from None
            raise FailedError(f"{key}={text}: must be a number") from None
    operations += [OpData(key=key, value=0.0, remove=True) for key in unset]
    parts = [EntityData(entity_type=kind, entity_name=name or None) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=operations)], validate_only=False)
    for result in cluster.call(request).entries:
        check("quotas", result.error_code, result.error_message, lambda: suggestion([*changed, *unset], NAMES))
