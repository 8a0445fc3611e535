"""A broker with a group of one member, for the handlers of groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.replication.produce_data import REFUSED, PartitionProduceResult
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.api.whole import Whole

GROUP = "g"
METADATA = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"  # version 0, one topic, no user data
ASSIGNMENT = b"all of t"


@contextmanager
def unwritable() -> Iterator[None]:
    """Let every append fail with NOT_ENOUGH_REPLICAS."""

    refusal = PartitionProduceResult(ErrorCode.NOT_ENOUGH_REPLICAS), REFUSED
    with patch.object(ReplicaManager, "append_one", return_value=refusal):
        yield


def versions(key: int) -> range:
    lowest, highest = message_versions(key)
    return range(lowest, highest + 1)


async def broker(folder: Path, **config: Any) -> Whole:
    """Start a broker with a topic `t` of two partitions and a coordinator."""
    whole = await Whole(folder, offsets_topic_num_partitions=2, **config).start()
    await whole.create("t", 2)
    await whole.ask(FindCoordinatorRequest(key=GROUP), 0)
    return whole


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=10_000, rebalance_timeout_ms=20_000, member_id=member_id, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)], **fields,
    )  # fmt: skip


async def member(whole: Whole, instance: str | None = None) -> str:
    """Join as the only member of the group, which is then stable in generation 1, and return the member's id."""
    joined = await whole.ask(join_request(group_instance_id=instance), 5 if instance else 3)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=ASSIGNMENT)]
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=joined.member_id, assignments=assignments)
    synced = await whole.ask(request, 0)
    assert (synced.error_code, synced.assignment) == (0, ASSIGNMENT)
    return str(joined.member_id)


def commit_request(topic: str = "t", partition: int = 0, offset: int = 5, **fields: Any) -> OffsetCommitRequest:
    details = {name: fields.pop(name) for name in ("committed_metadata", "commit_timestamp") if name in fields}
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, **details)
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=fields.pop("topic_id", bytes(16)), partitions=[one])]
    return OffsetCommitRequest(group_id=fields.pop("group_id", GROUP), topics=topics, **fields)
