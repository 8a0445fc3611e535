"""Produce and Fetch with ACLs: by topics, in sessions, and in the short ways of requests that are like one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.metadata.acl_changes import delete_acls
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.security.acl.binding import AclOperation, PatternType, PermissionType, ResourceType
from pybroker.security.acl.filters import AclFilter
from testing.scenes.api.records import batch_of_values, read
from testing.scenes.api.whole import Whole
from tests.api.access.scenes import ADMIN, BOB, allow, guarded

TOPIC = ResourceType.TOPIC
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def broker(folder: Path) -> Whole:
    whole = await guarded(folder)
    for name in ("open", "shut"):
        await whole.create(name)
    whole.connection.principal = BOB
    return whole


def produce_of(*names: str, acks: int = 1, is_transactional: bool = False) -> ProduceRequest:
    data = (
        batch_of_values(b"v", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        if is_transactional
        else None
    )
    one = PartitionProduceData(index=0, records=batch_of_values(b"v") if data is None else data)
    return ProduceRequest(
        transactional_id="t" if is_transactional else None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=name, partition_data=[one]) for name in names],
    )


def codes_of(response: Any) -> dict[str, int]:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


async def test_what_may_be_written_is_and_the_rest_is_refused(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "open", AclOperation.WRITE)
    response = await whole.ask(produce_of("shut", "open", "none"), 9)
    assert codes_of(response) == {"shut": REFUSED, "open": 0, "none": REFUSED}
    ends = {log.topic_partition.topic: log.log_end_offset for log in whole.logs.all_logs()}
    assert ends == {"open": 1, "shut": 0}
    with pytest.raises(ProtocolViolation, match="shut-0: TOPIC_AUTHORIZATION_FAILED"):
        await whole.ask(produce_of("shut", acks=0), 9)


async def test_records_of_a_transaction_need_its_id(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "open", AclOperation.WRITE)
    response = await whole.ask(produce_of("open", is_transactional=True), 9)
    assert codes_of(response) == {"open": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


async def test_a_form_that_was_allowed_ends_with_the_permission(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "open", AclOperation.WRITE)
    for _ in range(3):
        assert codes_of(await whole.ask(produce_of("open"), 9)) == {"open": 0}
    assert whole.connection.repeated is not None
    await delete_acls(whole.controller, [AclFilter()])
    assert codes_of(await whole.ask(produce_of("open"), 9)) == {"open": REFUSED}


def fetch_of(*names: str, epoch: int = -1, session_id: int = 0, offset: int = 0, **fields: Any) -> FetchRequest:
    one = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
        topics=[FetchTopic(topic=name, partitions=[one]) for name in names], **fields,
    )  # fmt: skip


def fetched(response: Any) -> dict[str, tuple[int, int]]:
    """Return the error and the number of records of each topic."""
    return {
        topic.topic: (topic.partitions[0].error_code, len(read(topic.partitions[0].records or b"")))
        for topic in response.responses
    }


async def test_a_session_serves_what_is_allowed_at_each_request(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    whole.connection.principal = ADMIN
    await whole.ask(produce_of("open", "shut"), 9)
    whole.connection.principal = BOB
    await allow(whole, TOPIC, "open", AclOperation.READ)
    first = await whole.ask(fetch_of("shut", "open", epoch=0), 11)
    assert fetched(first) == {"shut": (REFUSED, 0), "open": (0, 1)}
    second = await whole.ask(fetch_of(epoch=1, session_id=first.session_id), 11)
    assert fetched(second) == {"shut": (REFUSED, 0), "open": (0, 1)}
    await allow(whole, TOPIC, "*", AclOperation.READ)
    third = await whole.ask(fetch_of(epoch=2, session_id=first.session_id), 11)
    assert fetched(third) == {"shut": (0, 1), "open": (0, 1)}
    await delete_acls(whole.controller, [AclFilter()])
    last = await whole.ask(fetch_of(epoch=3, session_id=first.session_id), 11)
    assert fetched(last) == {"shut": (REFUSED, 0), "open": (REFUSED, 0)}


async def test_a_request_without_a_session(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "o", AclOperation.READ, pattern=PatternType.PREFIXED)
    assert fetched(await whole.ask(fetch_of("open"), 11)) == {"open": (0, 0)}
    assert fetched(await whole.ask(fetch_of("open", "shut"), 4)) == {"open": (0, 0), "shut": (REFUSED, 0)}


async def test_a_follower_needs_the_cluster(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "*", AclOperation.ALL)
    assert fetched(await whole.ask(fetch_of("open", replica_id=2), 11)) == {"open": (REFUSED, 0)}


async def test_kept_metadata_is_of_one_principal_and_of_its_acls(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "open", AclOperation.DESCRIBE)
    named = MetadataRequest(topics=[MetadataRequestTopic(name="open")])

    async def code() -> int:
        response = await whole.ask(named, 9)
        return int(response.topics[0].error_code)

    assert [await code(), await code()] == [0, 0]
    whole.connection.principal = "User:al"
    assert await code() == REFUSED
    whole.connection.principal = BOB
    assert await code() == 0
    await allow(whole, TOPIC, "open", AclOperation.DESCRIBE, permission=PermissionType.DENY)
    assert await code() == REFUSED


async def test_the_id_of_a_refused_topic_does_not_uncover_names(tmp_path: Path) -> None:
    """A request with ids does not count names: also when all of its ids are refused."""
    whole = await broker(tmp_path)
    await allow(whole, TOPIC, "*", AclOperation.DESCRIBE)
    await allow(whole, TOPIC, "shut", AclOperation.DESCRIBE, permission=PermissionType.DENY)
    shut = whole.controller.image.topics["shut"].topic_id
    topics = [MetadataRequestTopic(name=None, topic_id=shut), MetadataRequestTopic(name="new")]
    response = await whole.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    assert [(one.error_code, one.name, one.topic_id) for one in response.topics] == [(REFUSED, None, shut)]
    assert "new" not in whole.controller.image.topics
