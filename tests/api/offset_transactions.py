"""A transactional producer that commits the offsets of a group, request by request."""

from __future__ import annotations

from typing import Any

from pybroker.model import GroupId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from testing.error_codes import error_code
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer

GROUP = "readers"
UNSTABLE = "unstable"


class OffsetProducer(Producer):
    """A producer that adds the partition of the group's offsets first, if its version is 1."""

    async def open_offsets(self, group: str = GROUP, version: int | None = None) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.tid, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
        )
        response = await self.whole.ask(request, 3 if version is None else version)
        return error_code(response.error_code)

    async def commit(self, offset: int, *partitions: int, version: int | None = None, **fields: Any) -> list[ErrorCode]:
        """Commit an offset of partitions of `t`, 0 unless they are given, and return their codes."""
        version = (5 if self.version == 2 else 3) if version is None else version
        topic_id = self.whole.controller.image.topics["t"].topic_id if version >= 6 else bytes(16)
        asked = [TxnOffsetCommitRequestPartition(partition_index=one, committed_offset=offset) for one in partitions or (0,)]
        values: dict[str, Any] = {
            "group_id": GROUP,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "transactional_id": self.tid,
        }
        topics = [TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=asked)]
        response = await self.whole.ask(TxnOffsetCommitRequest(**(values | {"topics": topics} | fields)), version)
        return [error_code(one.error_code) for topic in response.topics for one in topic.partitions]


async def committed(whole: Whole, group: str = GROUP, *, stable: bool = True, everything: bool = False) -> list[Any]:
    """Return the committed offsets of both partitions of `t`, UNSTABLE where that is not known; or of all that have one."""
    topics = None if everything else [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    response = await whole.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 8)
    (found,) = response.groups
    assert found.error_code == 0
    codes = {ErrorCode.NONE: None, ErrorCode.UNSTABLE_OFFSET_COMMIT: UNSTABLE}
    offsets = []
    for topic in found.topics:
        for one in topic.partitions:
            is_unstable = codes[error_code(one.error_code)] is UNSTABLE
            assert not is_unstable or one.committed_offset == -1
            offsets.append(UNSTABLE if is_unstable else one.committed_offset)
    return offsets


def is_pending(whole: Whole, group: str = GROUP) -> bool:
    return any(shard.pending.keys_of(GroupId(group)) for shard in whole.groups.runtime.shards)
