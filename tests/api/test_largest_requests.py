"""The largest requests that are allowed hold the loop for less than 50 ms, and each element of them has its result.

They are those of clients, administrators and coordinators. What is large in each is all that it may have: 25,000 elements.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pybroker.model import TopicId
from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import add_partitions_to_txn as additions
from pybroker.protocol.messages import alter_client_quotas as quotas
from pybroker.protocol.messages import alter_user_scram_credentials as scram
from pybroker.protocol.messages import create_acls, create_topics, delete_acls, describe_groups
from pybroker.protocol.messages import create_partitions as growth
from pybroker.protocol.messages import delete_topics as deletions
from pybroker.protocol.messages import describe_configs as configs
from pybroker.protocol.messages import describe_topic_partitions as pages
from pybroker.protocol.messages import describe_user_scram_credentials as credentials
from pybroker.protocol.messages import fetch as fetches
from pybroker.protocol.messages import find_coordinator as coordinators
from pybroker.protocol.messages import incremental_alter_configs as alterations
from pybroker.protocol.messages import list_offsets as ends
from pybroker.protocol.messages import metadata as topics
from pybroker.protocol.messages import offset_commit as commits
from pybroker.protocol.messages import offset_delete as forgotten
from pybroker.protocol.messages import offset_fetch as offsets
from pybroker.protocol.messages import offset_for_leader_epoch as epochs
from pybroker.protocol.messages import produce as produces
from pybroker.protocol.messages import txn_offset_commit as pending
from pybroker.protocol.messages import write_txn_markers as markers
from testing.scenes.api.codes import codes_in
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.turns import run_watched
from tests.api.offset_transactions import GROUP, OffsetProducer
from tests.api.transactions import broker

pytestmark = [
    pytest.mark.judges_time,
    pytest.mark.skipif(not codec.IS_NATIVE, reason="to decode and encode such messages in Python takes longer than a turn may"),
]

LIMIT_MS: Final = 50
PARTITIONS: Final = 25_000 - 8
"""One topic of this many partitions has nearly as many elements as a request may have."""
TOPICS: Final = 10_000
"""The topics that a broker is made for; each with one partition, they are 20,000 elements."""
NUMBERS: Final = range(PARTITIONS)
HALF: Final = range(PARTITIONS // 2)
IDS: Final = [TopicId(number.to_bytes(16)) for number in range(TOPICS)]
KNOWN: Final = [f"t{number}" for number in range(TOPICS)]
UNKNOWN: Final = [f"unknown-{number}" for number in NUMBERS]
NONE: Final = ErrorCode.NONE
MISSING: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Case(NamedTuple):
    """A request with its version, and how many elements of the response get which code; None: some field has no code."""

    make: Callable[[OffsetProducer], Any]
    version: int
    codes: dict[ErrorCode, int] | None


async def started(folder: Path) -> tuple[Whole, OffsetProducer]:
    """Start a broker with a large topic and many small ones in its metadata, and a producer that may commit offsets."""
    whole = await broker(folder, offsets_topic_num_partitions=1, message_max_bytes=10_000_000, auto_create_topics_enable=False)
    await whole.ask(coordinators.FindCoordinatorRequest(key=GROUP), 3)
    producer = OffsetProducer(whole, 1)
    assert await producer.init() == NONE
    assert await producer.open_offsets(GROUP) == NONE
    image = whole.controller.image
    topic = image.topics["t"]
    large = dataclasses.replace(topic, partitions=topic.partitions[:1] * PARTITIONS)
    small = [dataclasses.replace(topic, name=name, topic_id=one) for name, one in zip(KNOWN, IDS, strict=True)]
    known = {**image.topics, "t": large, **{one.name: one for one in small}}
    by_id = {**image.topics_by_id, **{one.topic_id: one for one in known.values()}}
    whole.controller.image = dataclasses.replace(image, topics=known, topics_by_id=by_id)
    return whole, producer


# -- groups and transactions


def commit(*asked: Any) -> Any:
    return commits.OffsetCommitRequest(group_id=GROUP, topics=list(asked))


def offset(number: int) -> Any:
    return commits.OffsetCommitRequestPartition(partition_index=number, committed_offset=7)


def of_partitions(_: OffsetProducer) -> Any:
    return commit(commits.OffsetCommitRequestTopic(name="t", partitions=list(map(offset, NUMBERS))))


def in_transaction(producer: OffsetProducer) -> Any:
    each = [pending.TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=7) for one in NUMBERS]
    asked = [pending.TxnOffsetCommitRequestTopic(name="t", partitions=each)]
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return pending.TxnOffsetCommitRequest(group_id=GROUP, transactional_id=producer.tid, topics=asked, **values)


def addition(producer: OffsetProducer) -> Any:
    return additions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.tid,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[additions.AddPartitionsToTxnTopic(name="t", partitions=list(NUMBERS))],
    )


def verification(producer: OffsetProducer) -> Any:
    asked = [additions.AddPartitionsToTxnTopic(name="t", partitions=list(NUMBERS))]
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "topics": asked}
    one = additions.AddPartitionsToTxnTransaction(transactional_id=producer.tid, verify_only=True, **values)
    return additions.AddPartitionsToTxnRequest(transactions=[one])


def of_markers(producer: OffsetProducer) -> Any:
    asked = [
        markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0]),
        markers.WritableTxnMarkerTopic(name="none", partition_indexes=list(NUMBERS[1:])),
    ]
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "coordinator_epoch": 0}
    return markers.WriteTxnMarkersRequest(markers=[markers.WritableTxnMarker(topics=asked, transaction_result=True, **values)])


def of_deleted_offsets(_: OffsetProducer) -> Any:
    partitions = [forgotten.OffsetDeleteRequestPartition(partition_index=number) for number in NUMBERS]
    return forgotten.OffsetDeleteRequest(
        group_id=GROUP, topics=[forgotten.OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    )


def fetched_offsets(*counts: int) -> Any:
    asked = [
        offsets.OffsetFetchRequestTopics(name=f"t{number}", partition_indexes=list(range(count)))
        for number, count in enumerate(counts)
    ]
    return offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(group_id=GROUP, topics=asked)])


def old_fetched_offsets(_: OffsetProducer) -> Any:
    asked = [offsets.OffsetFetchRequestTopic(name="t", partition_indexes=list(NUMBERS))]
    return offsets.OffsetFetchRequest(group_id=GROUP, topics=asked)


GROUPS: Final = {
    "commit of partitions": Case(of_partitions, 8, {NONE: PARTITIONS}),
    "commit of topics by id": Case(
        lambda _: commit(*[commits.OffsetCommitRequestTopic(topic_id=one, partitions=[offset(0)]) for one in IDS]),
        10,
        {NONE: TOPICS},
    ),
    "commit in a transaction": Case(in_transaction, 3, {NONE: PARTITIONS}),
    "partitions of a transaction": Case(addition, 3, {NONE: PARTITIONS}),
    "verification of a transaction": Case(verification, 4, {ErrorCode.TRANSACTION_ABORTABLE: PARTITIONS}),
    "markers": Case(of_markers, 1, {NONE: 1, MISSING: PARTITIONS - 1}),
    "deletion of offsets": Case(of_deleted_offsets, 0, {NONE: PARTITIONS}),
    "old fetch of offsets": Case(old_fetched_offsets, 7, {NONE: PARTITIONS}),
    "fetch of offsets": Case(lambda _: fetched_offsets(PARTITIONS), 8, {NONE: PARTITIONS}),
    "fetch of offsets of topics": Case(lambda _: fetched_offsets(*[1] * len(HALF)), 8, {NONE: len(HALF)}),
    "groups": Case(lambda _: describe_groups.DescribeGroupsRequest(groups=UNKNOWN[:900] * 20), 5, {NONE: 900 * 20}),
}

# -- records


def of_records(_: OffsetProducer) -> Any:
    data = [produces.PartitionProduceData(index=one, records=None) for one in NUMBERS]
    return produces.ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[produces.TopicProduceData(name="t", partition_data=data)]
    )


def fetch(session_epoch: int) -> Any:
    partitions = [fetches.FetchPartition(partition=one, fetch_offset=0, partition_max_bytes=1 << 20) for one in range(TOPICS)]
    asked = [fetches.FetchTopic(topic="t", partitions=partitions)]
    return fetches.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=asked, session_epoch=session_epoch)


def of_epochs(_: OffsetProducer) -> Any:
    each = [epochs.OffsetForLeaderPartition(partition=one, leader_epoch=0) for one in range(200)]
    return epochs.OffsetForLeaderEpochRequest(
        topics=[epochs.OffsetForLeaderTopic(topic=name, partitions=each) for name in UNKNOWN[:120]]
    )


def of_ends(_: OffsetProducer) -> Any:
    last = [ends.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ends.ListOffsetsRequest(replica_id=-1, topics=[ends.ListOffsetsTopic(name=name, partitions=last) for name in KNOWN])


RECORDS: Final = {
    "records": Case(of_records, 7, {ErrorCode.INVALID_RECORD: PARTITIONS}),
    "fetch": Case(lambda _: fetch(-1), 11, None),
    "fetch that begins a session": Case(lambda _: fetch(0), 11, None),
    "epochs": Case(of_epochs, 3, {MISSING: 120 * 200}),
    "ends": Case(of_ends, 5, None),
}

# -- topics, settings and features that are off


def creation(*asked: Any) -> Any:
    return create_topics.CreateTopicsRequest(topics=list(asked))


def topic(name: str, **fields: Any) -> Any:
    return create_topics.CreatableTopic(name=name, **{"num_partitions": 1, "replication_factor": 1, **fields})


def with_assignment(_: OffsetProducer) -> Any:
    assignments = [create_topics.CreatableReplicaAssignment(partition_index=one, broker_ids=[1]) for one in HALF]
    return creation(topic("new", num_partitions=-1, replication_factor=-1, assignments=assignments))


def with_settings(_: OffsetProducer) -> Any:
    return creation(topic("new", configs=[create_topics.CreatableTopicConfig(name=name, value="1") for name in UNKNOWN[1:]]))


def more_partitions(_: OffsetProducer) -> Any:
    asked = [growth.CreatePartitionsTopic(name=name, count=3, assignments=None) for name in UNKNOWN]
    return growth.CreatePartitionsRequest(topics=asked)


def changed_settings(_: OffsetProducer) -> Any:
    change = alterations.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    each = [alterations.AlterConfigsResource(resource_type=2, resource_name=UNKNOWN[one], configs=[change]) for one in HALF]
    return alterations.IncrementalAlterConfigsRequest(resources=each)


def of_settings(_: OffsetProducer) -> Any:
    each = [configs.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None) for name in KNOWN]
    return configs.DescribeConfigsRequest(resources=each, include_synonyms=True)


def named(request: type[Any], one: type[Any], names: list[str]) -> Callable[[OffsetProducer], Any]:
    return lambda _: request(topics=[one(name=name) for name in names])


ADMINISTRATION: Final = {
    "topics": Case(lambda _: creation(*map(topic, UNKNOWN)), 4, {ErrorCode.POLICY_VIOLATION: PARTITIONS}),
    "one topic with partitions": Case(with_assignment, 4, {ErrorCode.POLICY_VIOLATION: 1}),
    "one topic with settings": Case(with_settings, 4, {ErrorCode.INVALID_CONFIG: 1}),
    "more partitions": Case(more_partitions, 1, {MISSING: PARTITIONS}),
    "deletion": Case(named(deletions.DeleteTopicsRequest, deletions.DeleteTopicState, UNKNOWN), 6, {MISSING: PARTITIONS}),
    "changes of settings": Case(changed_settings, 1, {MISSING: len(HALF)}),
    "a page": Case(named(pages.DescribeTopicPartitionsRequest, pages.TopicRequest, UNKNOWN), 0, {MISSING: PARTITIONS}),
    "metadata": Case(named(topics.MetadataRequest, topics.MetadataRequestTopic, [*KNOWN, *UNKNOWN[:TOPICS]]), 12, None),
    "settings": Case(of_settings, 4, None),
    "rules of access": Case(
        lambda _: create_acls.CreateAclsRequest(creations=[create_acls.AclCreation() for _ in HALF]), 0, None
    ),
    "deletions of rules": Case(
        lambda _: delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter() for _ in NUMBERS]), 0, None
    ),
    "quotas": Case(lambda _: quotas.AlterClientQuotasRequest(entries=[quotas.EntryData() for _ in range(8_000)]), 0, None),
    "changes of credentials": Case(
        lambda _: scram.AlterUserScramCredentialsRequest(deletions=[scram.ScramCredentialDeletion(name=one) for one in UNKNOWN]),
        0,
        None,
    ),
    "credentials": Case(
        lambda _: credentials.DescribeUserScramCredentialsRequest(users=[credentials.UserName(name=one) for one in UNKNOWN]),
        0,
        None,
    ),
}

CASES: Final = {**GROUPS, **RECORDS, **ADMINISTRATION}


@pytest.mark.parametrize("name", CASES)
def test_the_loop_is_held_for_less_than_50_ms(tmp_path: Path, name: str) -> None:
    make, version, expected = CASES[name]
    found: Counter[int] = Counter()

    async def ask() -> None:
        whole, producer = await started(tmp_path)
        whole.call_soon = asyncio.get_running_loop().call_soon
        if name == "deletion of offsets":
            await whole.ask(of_partitions(producer), 8)
        request = make(producer)
        frame = frame_of(request, version)
        await asyncio.sleep(0)  # what the client does is no part of the turn
        sent = await settled(whole.dispatcher.handle(whole.connection, frame))
        await asyncio.sleep(0)
        response = whole.read(sent, request, version)
        if expected is not None:
            found.update(codes_in(response))

    assert run_watched(ask, limit_ms=LIMIT_MS).long_texts("<locals>.ask held") == []
    assert found == Counter(expected or ())
