"""The messages: declarations only, one module per API, imported when the API is first used.

Class names are those of Kafka's JSON definitions, attributes are its field names in snake_case. Fields and versions are those of
Kafka 4.4, and of 3.9 for what 4.0 dropped; `integration/conformance/test_protocol_declarations.py` compares them. Where request
and response have different structs of one name, that of the response begins with Response.

Some modules hold messages that are neither requests nor responses: `consumer_protocol`, and those whose names end in `_records`,
but not `delete_records`.
"""

from __future__ import annotations

import functools
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping


class Spoken(NamedTuple):
    """The versions of an API, as in its declarations; known without importing these."""

    versions: Versions
    flexible: Versions


_VERSIONS: Final = {
    ApiKey.PRODUCE: ("0-13", "9+"),
    ApiKey.FETCH: ("0-18", "12+"),
    ApiKey.LIST_OFFSETS: ("0-11", "6+"),
    ApiKey.METADATA: ("0-13", "9+"),
    ApiKey.OFFSET_COMMIT: ("0-10", "8+"),
    ApiKey.OFFSET_FETCH: ("0-10", "6+"),
    ApiKey.FIND_COORDINATOR: ("0-6", "3+"),
    ApiKey.JOIN_GROUP: ("0-9", "6+"),
    ApiKey.HEARTBEAT: ("0-4", "4+"),
    ApiKey.LEAVE_GROUP: ("0-5", "4+"),
    ApiKey.SYNC_GROUP: ("0-5", "4+"),
    ApiKey.DESCRIBE_GROUPS: ("0-6", "5+"),
    ApiKey.LIST_GROUPS: ("0-5", "3+"),
    ApiKey.SASL_HANDSHAKE: ("0-1", "none"),
    ApiKey.API_VERSIONS: ("0-5", "3+"),
    ApiKey.CREATE_TOPICS: ("0-7", "5+"),
    ApiKey.DELETE_TOPICS: ("0-6", "4+"),
    ApiKey.DELETE_RECORDS: ("0-2", "2+"),
    ApiKey.INIT_PRODUCER_ID: ("0-6", "2+"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("0-4", "4+"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("0-5", "3+"),
    ApiKey.ADD_OFFSETS_TO_TXN: ("0-4", "3+"),
    ApiKey.END_TXN: ("0-5", "3+"),
    ApiKey.WRITE_TXN_MARKERS: ("0-2", "1+"),
    ApiKey.TXN_OFFSET_COMMIT: ("0-6", "3+"),
    ApiKey.DESCRIBE_ACLS: ("0-3", "2+"),
    ApiKey.CREATE_ACLS: ("0-3", "2+"),
    ApiKey.DELETE_ACLS: ("0-3", "2+"),
    ApiKey.DESCRIBE_CONFIGS: ("0-4", "4+"),
    ApiKey.ALTER_CONFIGS: ("0-2", "2+"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("0-2", "2+"),
    ApiKey.DESCRIBE_LOG_DIRS: ("0-5", "2+"),
    ApiKey.SASL_AUTHENTICATE: ("0-2", "2+"),
    ApiKey.CREATE_PARTITIONS: ("0-3", "2+"),
    ApiKey.CREATE_DELEGATION_TOKEN: ("0-3", "2+"),
    ApiKey.RENEW_DELEGATION_TOKEN: ("0-2", "2+"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ("0-2", "2+"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ("0-3", "2+"),
    ApiKey.DELETE_GROUPS: ("0-3", "2+"),
    ApiKey.ELECT_LEADERS: ("0-2", "2+"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("0-1", "1+"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("0-1", "0+"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("0", "0+"),
    ApiKey.OFFSET_DELETE: ("0", "none"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKey.DESCRIBE_QUORUM: ("0-2", "0+"),
    ApiKey.UPDATE_FEATURES: ("0-2", "0+"),
    ApiKey.DESCRIBE_CLUSTER: ("0-2", "0+"),
    ApiKey.DESCRIBE_PRODUCERS: ("0", "0+"),
    ApiKey.UNREGISTER_BROKER: ("0", "0+"),
    ApiKey.DESCRIBE_TRANSACTIONS: ("0", "0+"),
    ApiKey.LIST_TRANSACTIONS: ("0-2", "0+"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ("0-1", "0+"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("0-1", "0+"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ("0", "0+"),
    ApiKey.PUSH_TELEMETRY: ("0", "0+"),
    ApiKey.LIST_CONFIG_RESOURCES: ("0-1", "0+"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("0", "0+"),
}

MESSAGES: Final[Mapping[int, Spoken]] = MappingProxyType(
    {key: Spoken(Versions.parse(versions), Versions.parse(flexible)) for key, (versions, flexible) in _VERSIONS.items()}
)
"""Every API whose messages this package declares, in order of the keys."""


def api_name(key: ApiKey) -> str:
    """Return Kafka's own name, such as ListOffsets."""
    return key.name.title().replace("_", "")


@functools.cache
def message_classes(api_key: int) -> tuple[type[Any], type[Any]]:
    """Return request and response of an API, imported on the first call. Raises KeyError for APIs without messages here."""
    if api_key not in MESSAGES:
        raise KeyError(api_key)
    key = ApiKey(api_key)
    module = import_module(f"{__name__}.{key.name.lower()}")
    name = api_name(key)
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
