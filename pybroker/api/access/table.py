"""The needs of each API: the one table of permissions, from which docs/security.md has its list.

An API that is not in the table cannot be served by a broker with an authorizer.

Source: KafkaApis, ControllerApis, AuthHelper, AclApis and ConfigHelper of Kafka 3.9; Kafka 4 for groups' settings and for the
topics of groups of KIP-848.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pybroker.api.access import configs, groups, records, tokens, topics, transactions
from pybroker.api.access.need import Access, Need
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

_READ, _WRITE, _CREATE, _DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
_ALTER, _DESCRIBE, _ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
_TOPIC, _GROUP, _CLUSTER, _ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID

_USER: Final = ResourceType.USER
_NOTHING: Final = Access()
_OF_A_MEMBER: Final = Access((Need(_READ, _GROUP, "group_id"),))
_OF_CLUSTER: Final = {
    operation: Access((Need(operation, _CLUSTER),)) for operation in (_ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
}
_SETTINGS: Final = {
    operation: (
        Need(operation, _TOPIC, "resource_name", "resources", when="settings of a topic"),
        Need(operation, _GROUP, "resource_name", "resources", when="settings of a group"),
        Need(operation, _CLUSTER, of="resources", when="settings of a broker, of loggers, of client metrics"),
    )
    for operation in (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
}

TABLE: Final[Mapping[ApiKey, Access]] = MappingProxyType({
    ApiKey.PRODUCE: Access(
        (
            Need(_WRITE, _ID, "transactional_id", when="records of a transaction"),
            Need(_WRITE, _TOPIC, "name", "topic_data"),
        ),
        records.produce,
    ),
    ApiKey.FETCH: Access(
        (
            Need(_READ, _TOPIC, "topic", "topics"),
            Need(_ACTION, _CLUSTER, of="topics", when="a follower", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ),
        records.fetch,
    ),
    ApiKey.LIST_OFFSETS: Access((Need(_DESCRIBE, _TOPIC, "name", "topics", "topics"),)),
    ApiKey.METADATA: Access(
        (
            Need(_DESCRIBE, _TOPIC, "name", "topics"),
            Need(_DESCRIBE, _TOPIC, "name", hides=True, when="all topics"),
            Need(_CREATE, _TOPIC, "name", "topics", instead=Need(_CREATE, _CLUSTER), when="a topic is created by this"),
        ),
        topics.metadata,
    ),
    ApiKey.OFFSET_COMMIT: Access((Need(_READ, _GROUP, "group_id"), Need(_READ, _TOPIC, "name", "topics", "topics"))),
    ApiKey.OFFSET_FETCH: Access(
        (
            Need(_DESCRIBE, _GROUP, "group_id", "groups"),
            Need(_DESCRIBE, _TOPIC, "name", "topics"),
            Need(_DESCRIBE, _TOPIC, "name", hides=True, when="all offsets of a group"),
        ),
        groups.offset_fetch,
    ),
    ApiKey.FIND_COORDINATOR: Access(
        (
            Need(_DESCRIBE, _GROUP, "key", "coordinator_keys", when="of a group"),
            Need(_DESCRIBE, _ID, "key", "coordinator_keys", when="of a transactional id"),
        ),
        groups.find_coordinator,
    ),
    ApiKey.JOIN_GROUP: _OF_A_MEMBER,
    ApiKey.HEARTBEAT: _OF_A_MEMBER,
    ApiKey.LEAVE_GROUP: _OF_A_MEMBER,
    ApiKey.SYNC_GROUP: _OF_A_MEMBER,
    ApiKey.DESCRIBE_GROUPS: Access((Need(_DESCRIBE, _GROUP, "name", "groups", "groups"),), groups.describe_groups),
    ApiKey.LIST_GROUPS: Access(
        (Need(_DESCRIBE, _GROUP, "group_id", hides=True, instead=Need(_DESCRIBE, _CLUSTER)),), groups.list_groups
    ),
    ApiKey.SASL_HANDSHAKE: _NOTHING,
    ApiKey.API_VERSIONS: _NOTHING,
    ApiKey.CREATE_TOPICS: Access(
        (
            Need(_CREATE, _TOPIC, "name", "topics", instead=Need(_CREATE, _CLUSTER)),
            Need(_DESCRIBE_CONFIGS, _TOPIC, "name", hides=True, when="the settings of a created topic"),
        ),
        topics.create_topics,
    ),
    ApiKey.DELETE_TOPICS: Access(
        (
            Need(_DESCRIBE, _TOPIC, "name", "topics", instead=Need(_DELETE, _CLUSTER)),
            Need(_DELETE, _TOPIC, "name", "topics", instead=Need(_DELETE, _CLUSTER)),
        ),
        topics.delete_topics,
    ),
    ApiKey.DELETE_RECORDS: Access((Need(_DELETE, _TOPIC, "name", "topics", "topics"),)),
    ApiKey.INIT_PRODUCER_ID: Access(
        (
            Need(_WRITE, _ID, "transactional_id", when="with a transactional id"),
            Need(
                AclOperation.IDEMPOTENT_WRITE, _CLUSTER, instead=Need(_WRITE, _TOPIC, "any"), when="without a transactional id"
            ),
        ),
        transactions.init_producer_id,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Access(
        (Need(_DESCRIBE, _TOPIC, "topic", "topics", "topics", instead=Need(_ACTION, _CLUSTER)),)
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Access(
        (
            Need(_ACTION, _CLUSTER, when="v4 and later, of brokers"),
            Need(_WRITE, _ID, "v3_and_below_transactional_id", when="before v4"),
            Need(_WRITE, _TOPIC, "name", "v3_and_below_topics", when="before v4"),
        ),
        transactions.add_partitions_to_txn,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Access((Need(_WRITE, _ID, "transactional_id"), Need(_READ, _GROUP, "group_id"))),
    ApiKey.END_TXN: Access((Need(_WRITE, _ID, "transactional_id"),)),
    ApiKey.WRITE_TXN_MARKERS: Access((Need(_ACTION, _CLUSTER, instead=Need(_ALTER, _CLUSTER)),)),
    ApiKey.TXN_OFFSET_COMMIT: Access(
        (
            Need(_WRITE, _ID, "transactional_id"),
            Need(_READ, _GROUP, "group_id"),
            Need(_READ, _TOPIC, "name", "topics", "topics"),
        )
    ),
    ApiKey.DESCRIBE_ACLS: _OF_CLUSTER[_DESCRIBE],
    ApiKey.CREATE_ACLS: _OF_CLUSTER[_ALTER],
    ApiKey.DELETE_ACLS: _OF_CLUSTER[_ALTER],
    ApiKey.DESCRIBE_CONFIGS: Access(_SETTINGS[_DESCRIBE_CONFIGS], configs.describe_configs),
    ApiKey.ALTER_CONFIGS: Access(_SETTINGS[_ALTER_CONFIGS], configs.alter_configs),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _OF_CLUSTER[_ALTER],
    ApiKey.DESCRIBE_LOG_DIRS: _OF_CLUSTER[_DESCRIBE],
    ApiKey.SASL_AUTHENTICATE: _NOTHING,
    ApiKey.CREATE_PARTITIONS: Access((Need(_ALTER, _TOPIC, "name", "topics", "results"),)),
    ApiKey.CREATE_DELEGATION_TOKEN: Access(
        (Need(AclOperation.CREATE_TOKENS, _USER, "owner_principal_name", when="a token of another user"),),
        tokens.create_delegation_token,
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: _NOTHING,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NOTHING,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Access(
        (
            Need(
                _DESCRIBE,
                ResourceType.DELEGATION_TOKEN,
                "token_id",
                hides=True,
                instead=Need(AclOperation.DESCRIBE_TOKENS, _USER, "principal_name"),
                when="tokens of others",
            ),
        ),
        tokens.describe_delegation_token,
    ),
    ApiKey.DELETE_GROUPS: Access((Need(_DELETE, _GROUP, "name", "groups_names", "results"),)),
    ApiKey.ELECT_LEADERS: _OF_CLUSTER[_ALTER],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Access(_SETTINGS[_ALTER_CONFIGS], configs.alter_configs),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _OF_CLUSTER[_ALTER],
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _OF_CLUSTER[_DESCRIBE],
    ApiKey.OFFSET_DELETE: Access((Need(_DELETE, _GROUP, "group_id"), Need(_READ, _TOPIC, "name", "topics", "topics"))),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _OF_CLUSTER[_DESCRIBE_CONFIGS],
    ApiKey.ALTER_CLIENT_QUOTAS: _OF_CLUSTER[_ALTER_CONFIGS],
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _OF_CLUSTER[_DESCRIBE],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _OF_CLUSTER[_ALTER],
    ApiKey.DESCRIBE_QUORUM: _OF_CLUSTER[_DESCRIBE],
    ApiKey.UPDATE_FEATURES: _OF_CLUSTER[_ALTER],
    ApiKey.DESCRIBE_CLUSTER: Access(
        (Need(_DESCRIBE, _CLUSTER, hides=True, when="the operations that are allowed on the cluster"),), configs.describe_cluster
    ),
    ApiKey.DESCRIBE_PRODUCERS: Access((Need(_READ, _TOPIC, "name", "topics"),), topics.describe_producers),
    ApiKey.UNREGISTER_BROKER: _OF_CLUSTER[_ALTER],
    ApiKey.DESCRIBE_TRANSACTIONS: Access(
        (
            Need(_DESCRIBE, _ID, "name", "transactional_ids"),
            Need(_DESCRIBE, _TOPIC, "topic", hides=True, when="the topics of a transaction"),
        ),
        transactions.describe_transactions,
    ),
    ApiKey.LIST_TRANSACTIONS: Access((Need(_DESCRIBE, _ID, "name", hides=True),), transactions.list_transactions),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Access(
        (Need(_READ, _GROUP, "group_id"), Need(_DESCRIBE, _TOPIC, "name", when="the topics that a member names")),
        groups.consumer_group_heartbeat,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Access(
        (
            Need(_DESCRIBE, _GROUP, "name", "group_ids"),
            Need(_DESCRIBE, _TOPIC, "name", "group_ids", when="the topics of the members"),
        ),
        groups.consumer_group_describe,
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _NOTHING,
    ApiKey.PUSH_TELEMETRY: _NOTHING,
    ApiKey.LIST_CONFIG_RESOURCES: _OF_CLUSTER[_DESCRIBE_CONFIGS],
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Access(
        (
            Need(_DESCRIBE, _TOPIC, "name", "topics"),
            Need(_DESCRIBE, _TOPIC, "name", hides=True, when="all topics"),
        ),
        topics.describe_topic_partitions,
    ),
})  # fmt: skip
"""By the key of the API."""
