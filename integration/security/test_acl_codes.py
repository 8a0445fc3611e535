"""The error codes of requests with some permissions are those of Apache Kafka 3.9 with the same ACLs.

Two brokers get the same ACLs and the same requests: each API in each version that both serve, about a topic, a group or a
transactional id that exists and one that does not. On a plain listener the client is anonymous. The ACLs of another principal
make that it may do nothing with these names, and one ACL at a time allows it something. The client that changes the ACLs is
anonymous, too, and comes from another address.
"""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.error_counts import error_reader
from pybroker.api.registry import APIS
from pybroker.client.connection import Connection
from pybroker.client.errors import ClientError
from pybroker.client.frames import Frames
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import request_class, response_class
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker.protocol.messages.describe_acls import DescribeAclsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest
from pybroker.security.acl.binding import CLUSTER_NAME, AclOperation, PatternType, ResourceType
from testing.process.broker import BrokerProcess
from testing.waiting import until
from testing.wire.examples import example

pytestmark = pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("java") is None, reason="needs Java and Maven")

THERE, ABSENT, PREFIX = "den-a", "den-b", "den"
KAFKA = [sys.executable, "-m", "testing.process.kafka_peer", "start"]
ASKING, CHANGING, OF_BROKER = "127.0.0.3", "127.0.0.2", "127.0.0.1"
"""The addresses of the client that the codes are about, of the one that changes the ACLs, and of Kafka at its own controller."""
SETTINGS = {"authorizer.class.name": AUTHORIZERS[0], "super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
REFUSALS = {code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED")}

COMPARED = (
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_GROUPS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_QUORUM, ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.LIST_CONFIG_RESOURCES,
)  # fmt: skip
"""All that have a permission. Their requests, made without meaning, change nothing for the next ones."""
NAMES = {ApiKey.DELETE_TOPICS: (ABSENT,)}
"""The topics to ask about, where it is not both."""
LEAST = {ApiKey.OFFSET_FETCH: 1}
"""The first version, where Kafka does not serve one that it advertises."""

PLAIN: dict[str, Any] = {
    "timeout_ms": 1000, "max_wait_ms": 0, "transaction_timeout_ms": 60_000, "validate_only": True, "endpoint_type": 1,
    "allow_auto_topic_creation": False, "response_partition_limit": 10, "configs": [], "assignments": [], "cursor": None,
    "configuration_keys": None,
}  # fmt: skip
VARIANTS: dict[ApiKey, list[dict[str, Any]]] = {
    ApiKey.FIND_COORDINATOR: [{"key_type": key_type} for key_type in (0, 1)],
    ApiKey.DESCRIBE_CONFIGS: [{"resource_type": 2}, {"resource_type": 4, "resource_name": "1"}],
    ApiKey.ALTER_CONFIGS: [{"resource_type": 2}, {"resource_type": 4, "resource_name": "1"}],
    ApiKey.INCREMENTAL_ALTER_CONFIGS: [{"resource_type": 2}, {"resource_type": 4, "resource_name": "1"}],
    ApiKey.INIT_PRODUCER_ID: [{}, {"transactional_id": None}],
    ApiKey.PRODUCE: [{"transactional_id": None}],
    ApiKey.CREATE_ACLS: [{"resource_type": 2, "resource_pattern_type": 3, "principal": "none", "host": "*", "operation": 3}],
    ApiKey.DELETE_ACLS: [{"resource_type_filter": 2, "pattern_type_filter": 3, "principal_filter": "User:none", "operation": 2}],
    ApiKey.DESCRIBE_ACLS: [{"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3}],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: [{"replicas": None}],
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: [{"upsertions": [], "mechanism": 1}],
    ApiKey.UNREGISTER_BROKER: [{"broker_id": 99}],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [{"member_epoch": -1, "subscribed_topic_names": None, "subscribed_topic_regex": None}],
}


def acl(
    kind: int,
    name: str,
    operation: int,
    principal: str = "User:ANONYMOUS",
    pattern: int = PatternType.PREFIXED,
    host: str = ASKING,
) -> AclCreation:
    return AclCreation(
        resource_type=kind, resource_name=name, resource_pattern_type=pattern, principal=principal, host=host,
        operation=operation, permission_type=3,
    )  # fmt: skip


def of_cluster(operation: AclOperation, host: str = ASKING) -> AclCreation:
    return acl(ResourceType.CLUSTER, CLUSTER_NAME, operation, pattern=PatternType.LITERAL, host=host)


STATES = {
    "nothing": None,
    **{
        f"{kind.name} {operation.name}": acl(kind, PREFIX, operation)
        for kind, numbers in ((ResourceType.TOPIC, (3, 4, 5, 6, 7, 8, 10, 11)), (ResourceType.GROUP, (3, 6, 8)))
        for operation in map(AclOperation, numbers)
    },
    **{f"ID {operation.name}": acl(ResourceType.TRANSACTIONAL_ID, PREFIX, operation) for operation in map(AclOperation, (4, 8))},
    **{f"CLUSTER {operation.name}": of_cluster(operation) for operation in map(AclOperation, (5, 7, 8, 9, 10, 11, 12))},
}


class Broker:
    """One of the two, and a connection to it from each address."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._connections: dict[str, Connection] = {}

    def ask(self, request: Any, version: int, source: str = CHANGING) -> Any:
        """Return the response. Raises ClientError."""
        if source not in self._connections:
            self._connections[source] = self._connect(source)
        try:
            return self._connections[source].call(request, version)
        except ClientError:
            self._connections.pop(source).close()
            raise

    def _connect(self, source: str) -> Connection:
        connected = socket.create_connection(("127.0.0.1", self._process.port), timeout=60, source_address=(source, 0))
        return Connection(Frames(connected, address=self._process.bootstrap, client_id="codes", response_s=60))

    def codes(self, key: ApiKey, version: int, values: dict[str, Any], name: str) -> set[int] | str:
        request = example(request_class(key), version, name, **{**PLAIN, **values})
        try:
            return set(error_reader(response_class(key))(self.ask(request, version, ASKING)))
        except ClientError as error:
            return type(error).__name__

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def versions(self) -> dict[int, tuple[int, int]]:
        with closing(self._connect(ASKING)) as connection:
            connection.ask_versions(3)
            return connection.versions

    def prepare(self) -> None:
        topic = CreatableTopic(name=THERE, num_partitions=1, replication_factor=1)
        self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
        until(lambda: not self._error_of_group(), "the coordinator of the group serves it")
        kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        self.create(
            of_cluster(AclOperation.ALTER, CHANGING),
            of_cluster(AclOperation.CLUSTER_ACTION, OF_BROKER),
            *(acl(kind, PREFIX, AclOperation.ALL, "User:other") for kind in kinds),
        )

    def _error_of_group(self) -> int:
        """Return the error code of a group: Kafka's coordinator comes with the first request for it."""
        self.ask(example(FindCoordinatorRequest, 1, THERE), 1)
        return int(self.ask(example(OffsetFetchRequest, 2, THERE), 2).error_code)

    def create(self, *creations: AclCreation) -> None:
        response = self.ask(CreateAclsRequest(creations=list(creations)), 2)
        assert [one.error_code for one in response.results] == [0] * len(creations)

        for one in creations:
            self._wait(one, is_there=True)

    def delete(self, one: AclCreation) -> None:
        self.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**_selecting(one))]), 2)
        self._wait(one, is_there=False)

    def _wait(self, one: AclCreation, *, is_there: bool) -> None:
        """Wait until the broker has the change: Kafka's follows its controller after the response."""
        asked = DescribeAclsRequest(**_selecting(one))
        until(lambda: bool(self.ask(asked, 2).resources) is is_there, "the ACLs of a broker change")


def _selecting(one: AclCreation) -> dict[str, Any]:
    """Return the fields of a filter that selects one ACL."""
    return {
        "resource_type_filter": one.resource_type, "resource_name_filter": one.resource_name, "host_filter": one.host,
        "pattern_type_filter": one.resource_pattern_type, "principal_filter": one.principal, "operation": one.operation,
        "permission_type": 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    folder: Path = tmp_path_factory.mktemp("acls")
    of_kafka = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer"}
    processes = [BrokerProcess(folder / "kafka", of_kafka, start_command=KAFKA), BrokerProcess(folder / "ours", SETTINGS)]
    for process in processes:
        process.start()
    kafka, ours = map(Broker, processes)
    for one in (kafka, ours):
        one.prepare()
    yield kafka, ours
    for one in (kafka, ours):
        one.close()
    for process in processes:
        process.close()


@pytest.mark.parametrize("state", STATES)
def test_the_codes_are_those_of_kafka(state: str, brokers: tuple[Broker, Broker]) -> None:
    allowed = STATES[state]
    for broker in brokers:
        if allowed is not None:
            broker.create(allowed)
    served = [broker.versions() for broker in brokers]
    others: list[str] = []
    compared = 0
    for key in COMPARED:
        for version in range(max(one[key][0] for one in served), min(one[key][1] for one in served) + 1):
            if version < LEAST.get(key, 0):
                continue
            for values in VARIANTS.get(key, [{}]):
                for name in NAMES.get(key, (THERE, ABSENT)):
                    of_kafka, of_ours = (broker.codes(key, version, values, name) for broker in brokers)
                    compared += 1
                    if _refusals(of_kafka) != _refusals(of_ours):
                        others.append(f"{APIS[key].name} v{version} {values} {name}: {of_kafka}, here {of_ours}")
    for broker in brokers:
        if allowed is not None:
            broker.delete(allowed)
    assert not others, "\n".join(others)
    assert compared > 300


def _refusals(codes: set[int] | str) -> Any:
    return codes if isinstance(codes, str) else REFUSALS & codes
