"""Every API of administration in every version that it has: a request that can be done, and one that cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker.api.registry import APIS
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    find_coordinator,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_groups,
    list_partition_reassignments,
    list_transactions,
    offset_delete,
    offset_for_leader_epoch,
    push_telemetry,
    renew_delegation_token,
    unregister_broker,
    update_features,
)
from testing.scenes.api.whole import Whole

TOPIC, BROKER, GROUP = 2, 4, 32
NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class Case(NamedTuple):
    """`good` and `bad` make a request for a version; None where there is none of that kind. `code` is what the bad one gets."""

    good: Callable[[int], object] | None
    bad: Callable[[int], object] | None
    code: ErrorCode = ErrorCode.NONE


def create(name: str) -> Callable[[int], object]:
    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return lambda _: create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=1000)


def delete(name: str) -> Callable[[int], object]:
    states = [delete_topics.DeleteTopicState(name=name, topic_id=ZERO_TOPIC_ID)]
    return lambda version: (
        delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=1000)
        if version >= 6
        else delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
    )


def grow(count: int) -> Callable[[int], object]:
    topic = create_partitions.CreatePartitionsTopic(name="t", count=count, assignments=None)
    return lambda _: create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=1000)


def describe(kind: int, name: str) -> Callable[[int], object]:
    resource = describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return lambda _: describe_configs.DescribeConfigsRequest(resources=[resource])


def alter(module: Any, name: str, **operation: int) -> Callable[[int], object]:
    config = module.AlterableConfig(name=name, value="5000", **operation)
    resource = module.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
    request = getattr(module, "IncrementalAlterConfigsRequest", None) or module.AlterConfigsRequest
    return lambda _: request(resources=[resource], validate_only=False)


def cut(offset: int) -> Callable[[int], object]:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = delete_records.DeleteRecordsTopic(name="t", partitions=[partition])
    return lambda _: delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1000)


def move(path: Callable[[], str]) -> Callable[[int], object]:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])
    return lambda _: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path=path(), topics=[topic])]
    )


def epoch_end(number: int) -> Callable[[int], object]:
    asked = offset_for_leader_epoch.OffsetForLeaderPartition(partition=number, leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[asked])
    return lambda _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])


def elect(topic: str | None) -> Callable[[int], object]:
    topics = None if topic is None else [elect_leaders.TopicPartitions(topic=topic, partitions=[0])]
    return lambda _: elect_leaders.ElectLeadersRequest(topic_partitions=topics)


def reassign(replica: int) -> Callable[[int], object]:
    partition = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[replica])
    topic = alter_partition_reassignments.ReassignableTopic(name="t", partitions=[partition])
    return lambda _: alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def forget(group: str) -> Callable[[int], object]:
    topic = offset_delete.OffsetDeleteRequestTopic(
        name="t", partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
    )
    return lambda _: offset_delete.OffsetDeleteRequest(group_id=group, topics=[topic])


def producers(number: int) -> Callable[[int], object]:
    topic = describe_producers.TopicRequest(name="t", partition_indexes=[number])
    return lambda _: describe_producers.DescribeProducersRequest(topics=[topic])


def level(feature: str, number: int) -> Callable[[int], object]:
    update = update_features.FeatureUpdateKey(feature=feature, max_version_level=number)
    return lambda _: update_features.UpdateFeaturesRequest(feature_updates=[update])


def kinds(*numbers: int) -> Callable[[int], object]:
    request = list_config_resources.ListConfigResourcesRequest
    return lambda version: request(resource_types=list(numbers)) if version >= 1 else request()


def pages(topic: str) -> Callable[[int], object]:
    asked = [describe_topic_partitions.TopicRequest(name=topic)]
    return lambda _: describe_topic_partitions.DescribeTopicPartitionsRequest(topics=asked)


def coordinator(kind: int) -> Callable[[int], object]:
    def make(version: int) -> object:
        asked: dict[str, Any] = {"coordinator_keys": ["g"]} if version >= 4 else {"key": "g"}
        if version >= 1:
            asked["key_type"] = kind
        return find_coordinator.FindCoordinatorRequest(**asked)

    return make


def quorum(topic: str) -> Callable[[int], object]:
    asked = describe_quorum.TopicData(topic_name=topic, partitions=[describe_quorum.PartitionData(partition_index=0)])
    return lambda _: describe_quorum.DescribeQuorumRequest(topics=[asked])


def credential(user: str) -> Callable[[int], object]:
    asked = [describe_user_scram_credentials.UserName(name=user)] if user else None
    return lambda _: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=asked)


def absent(request: type[Any], code: ErrorCode, **values: Any) -> Case:
    return Case(None, lambda _: request(**values), code)


DIRECTORY: list[str] = [""]  # of the broker of the moment

CASES = {
    ApiKey.CREATE_TOPICS: Case(create("new"), create("t"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ApiKey.DELETE_TOPICS: Case(delete("t"), delete("nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.CREATE_PARTITIONS: Case(grow(2), grow(1), ErrorCode.INVALID_PARTITIONS),
    ApiKey.DELETE_RECORDS: Case(cut(0), cut(9), ErrorCode.OFFSET_OUT_OF_RANGE),
    ApiKey.DESCRIBE_CONFIGS: Case(describe(BROKER, "1"), describe(BROKER, "7"), ErrorCode.INVALID_REQUEST),
    ApiKey.ALTER_CONFIGS: Case(
        alter(alter_configs, "retention.ms"), alter(alter_configs, "nonsense"), ErrorCode.INVALID_CONFIG
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Case(
        alter(incremental_alter_configs, "retention.ms", config_operation=0),
        alter(incremental_alter_configs, "nonsense", config_operation=0),
        ErrorCode.INVALID_CONFIG,
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Case(
        kinds(TOPIC, GROUP), lambda version: kinds(77)(version) if version >= 1 else None, ErrorCode.UNSUPPORTED_VERSION
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Case(lambda _: describe_log_dirs.DescribeLogDirsRequest(topics=None), None),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Case(move(lambda: DIRECTORY[0]), move(lambda: "/nowhere"), ErrorCode.LOG_DIR_NOT_FOUND),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Case(epoch_end(0), epoch_end(9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.ELECT_LEADERS: Case(elect(None), elect("nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Case(reassign(1), reassign(9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Case(
        lambda _: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None), None
    ),
    ApiKey.UPDATE_FEATURES: Case(level("group.version", 1), level("nonsense", 1), ErrorCode.INVALID_UPDATE_VERSION),
    ApiKey.DESCRIBE_CLUSTER: Case(
        lambda _: describe_cluster.DescribeClusterRequest(),
        lambda version: describe_cluster.DescribeClusterRequest(endpoint_type=9) if version >= 1 else None,
        ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
    ),
    ApiKey.DESCRIBE_PRODUCERS: Case(producers(0), producers(9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Case(pages("t"), pages("nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Case(
        lambda _: get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest(), None
    ),
    ApiKey.PUSH_TELEMETRY: Case(None, lambda _: push_telemetry.PushTelemetryRequest(), ErrorCode.INVALID_REQUEST),
    ApiKey.FIND_COORDINATOR: Case(coordinator(0), None),
    ApiKey.LIST_GROUPS: Case(lambda _: list_groups.ListGroupsRequest(), None),
    ApiKey.DESCRIBE_GROUPS: Case(
        None, lambda version: describe_groups.DescribeGroupsRequest(groups=["nope"]) if version >= 6 else None,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ),
    ApiKey.DELETE_GROUPS: Case(
        None, lambda _: delete_groups.DeleteGroupsRequest(groups_names=["nope"]), ErrorCode.GROUP_ID_NOT_FOUND
    ),
    ApiKey.OFFSET_DELETE: Case(None, forget("nope"), ErrorCode.GROUP_ID_NOT_FOUND),
    ApiKey.INIT_PRODUCER_ID: Case(
        lambda _: init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), None
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Case(
        None, lambda _: describe_transactions.DescribeTransactionsRequest(transactional_ids=["nope"]), ErrorCode.NOT_COORDINATOR
    ),
    ApiKey.LIST_TRANSACTIONS: Case(lambda _: list_transactions.ListTransactionsRequest(), None),
    ApiKey.DESCRIBE_QUORUM: Case(quorum("__cluster_metadata"), quorum("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ApiKey.UNREGISTER_BROKER: Case(
        None, lambda _: unregister_broker.UnregisterBrokerRequest(broker_id=9), ErrorCode.BROKER_ID_NOT_REGISTERED
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Case(lambda _: describe_client_quotas.DescribeClientQuotasRequest(), None),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Case(credential(""), credential("nobody"), ErrorCode.RESOURCE_NOT_FOUND),
    ApiKey.DESCRIBE_ACLS: absent(describe_acls.DescribeAclsRequest, ErrorCode.SECURITY_DISABLED),
    ApiKey.CREATE_ACLS: absent(
        create_acls.CreateAclsRequest, ErrorCode.SECURITY_DISABLED, creations=[create_acls.AclCreation()]
    ),
    ApiKey.DELETE_ACLS: absent(
        delete_acls.DeleteAclsRequest, ErrorCode.SECURITY_DISABLED, filters=[delete_acls.DeleteAclsFilter()]
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: absent(create_delegation_token.CreateDelegationTokenRequest, NO_TOKENS),
    ApiKey.RENEW_DELEGATION_TOKEN: absent(renew_delegation_token.RenewDelegationTokenRequest, NO_TOKENS),
    ApiKey.EXPIRE_DELEGATION_TOKEN: absent(expire_delegation_token.ExpireDelegationTokenRequest, NO_TOKENS),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: absent(
        describe_delegation_token.DescribeDelegationTokenRequest, NO_TOKENS, owners=None
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: absent(
        alter_client_quotas.AlterClientQuotasRequest, ErrorCode.INVALID_REQUEST, entries=[alter_client_quotas.EntryData()]
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: absent(
        alter_user_scram_credentials.AlterUserScramCredentialsRequest, ErrorCode.RESOURCE_NOT_FOUND,
        deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="nobody", mechanism=1)],
    ),
}  # fmt: skip


def versions() -> list[Any]:
    served = [(api, version) for api in APIS.values() if api.key in CASES for version in range(api.lowest, api.highest + 1)]
    return [pytest.param(api.key, version, id=f"{api.name}-v{version}") for api, version in served]


def codes(message: object) -> Iterator[int]:
    """Yield all error codes of a response."""
    if isinstance(message, list):
        for one in message:
            yield from codes(one)
    else:
        for name in getattr(message, "__slots__", ()):
            value = getattr(message, name)
            if name == "error_code":
                yield value
            else:
                yield from codes(value)


def test_every_api_of_administration_is_here() -> None:
    of_data_and_members = {
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS),
        *(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP),
        *(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
        *(ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT),
        *(ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    }
    assert {api.key for api in APIS.values()} - of_data_and_members == CASES.keys()


@pytest.mark.parametrize(("key", "version"), versions())
async def test_what_can_be_done_and_what_cannot(tmp_path: Path, key: ApiKey, version: int) -> None:
    whole = await Whole(tmp_path, offsets_topic_num_partitions=1).start()
    await whole.create("t")
    await whole.create("__consumer_offsets")
    DIRECTORY[0] = str(tmp_path)
    case = CASES[key]
    bad = case.bad(version) if case.bad is not None else None
    if bad is not None:
        before = whole.controller.image
        assert case.code in set(codes(await whole.ask(bad, version)))
        assert whole.controller.image is before
    if case.good is not None:
        assert set(codes(await whole.ask(case.good(version), version))) <= {0}
