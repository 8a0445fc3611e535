"""Gives a topic more partitions, and removes records from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.admin.steps import Ask, check
from pybroker.admin.topics import CONTROLLER, leaders_of
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pybroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps

TIMEOUT_MS: Final = 30_000
END: Final = -1
"""In place of an offset: all records that consumers can read."""
NOT_DELETED: Final = {
    ErrorCode.POLICY_VIOLATION: "has cleanup.policy=compact, so its records cannot be deleted: write a tombstone for each key, "
    "add delete to its cleanup.policy, or delete the topic",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "is a topic of the broker itself, whose records cannot be deleted",
}
"""Why records are not deleted, behind the name of the topic."""


def enlarge(name: str, count: int) -> Steps[None]:
    """Give a topic more partitions, `count` in all, and wait until their leaders serve. Raises KafkaError."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
    response = yield Ask(request, 2, CONTROLLER)
    (result,) = response.results
    check(result.error_code, result.error_message)
    yield from leaders_of(name)


def delete_records(name: str, before: Mapping[int, int] | None = None) -> Steps[dict[int, int]]:
    """Remove the records of partitions below offsets, or below their ends, all of the topic if `before` is None.

    Returns the offsets at which the partitions begin now. Raises KafkaError.
    """
    found = yield from leaders_of(name)
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    wanted = dict.fromkeys(leaders, END) if before is None else before
    check(0 if wanted.keys() <= leaders.keys() else 3, f"the topic {name} has no partition {max(wanted)}")
    starts: dict[int, int] = {}
    for leader in sorted({leaders[index] for index in wanted}):
        partitions = [
            DeleteRecordsPartition(partition_index=index, offset=offset)
            for index, offset in sorted(wanted.items())
            if leaders[index] == leader
        ]
        topics = [DeleteRecordsTopic(name=name, partitions=partitions)]
        response = yield Ask(DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS), 1, leader)
        for one in response.topics[0].partitions:
            text = NOT_DELETED.get(one.error_code)
            check(one.error_code, text and f"{name} {text}")
            starts[one.partition_index] = one.low_watermark
    return starts
