"""ListOffsets: places and times, in every version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.api.handlers import list_offsets
from pybroker.model import Offset, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.api import records
from testing.scenes.api.whole import NOW_MS, Whole
from tests.api.handlers.test_produce import request as produce_request


async def filled(tmp_path: Path) -> Whole:
    """Start a broker with offsets 0 to 5 in three batches; the largest timestamp is that of offset 3."""
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    for timestamp in (NOW_MS, NOW_MS + 1000, NOW_MS + 500):
        await whole.ask(produce_request(records.batch_of_values(b"a", b"b", timestamp=timestamp)), 9)
    return whole


async def ask(whole: Whole, version: int, *timestamps: int, replica_id: int = -1, **fields: Any) -> list[Any]:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields) for timestamp in timestamps]
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    response = await whole.ask(request, version)
    (topic,) = response.topics
    return list(topic.partitions)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (list_offsets.LATEST, (6, -1)),
        (list_offsets.EARLIEST, (0, -1)),
        (0, (0, NOW_MS)),
        (NOW_MS + 1, (1, NOW_MS + 1)),
        (NOW_MS + 2, (2, NOW_MS + 1000)),
        (NOW_MS + 1001, (3, NOW_MS + 1001)),
        (NOW_MS + 1002, (-1, -1)),
        (list_offsets.MAX_TIMESTAMP, (3, NOW_MS + 1001)),
        (list_offsets.EARLIEST_LOCAL, (0, -1)),
        (list_offsets.LATEST_TIERED, (-1, -1)),
        (list_offsets.EARLIEST_PENDING_UPLOAD, (-1, -1)),
    ],
)
async def test_places_and_times(tmp_path: Path, version: int, timestamp: int, expected: tuple[int, int]) -> None:
    whole = await filled(tmp_path)
    (response,) = await ask(whole, version, timestamp)
    if version < list_offsets._FIRST_VERSION.get(timestamp, 0):
        assert (response.error_code, response.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        return
    assert (response.error_code, response.offset, response.timestamp) == (0, *expected)
    if version >= 4:
        assert response.leader_epoch == (-1 if expected[0] < 0 else 0)


async def test_version_0_responds_with_a_list(tmp_path: Path) -> None:
    whole = await filled(tmp_path)
    (latest,) = await ask(whole, 0, list_offsets.LATEST, max_num_offsets=10)
    (earliest,) = await ask(whole, 0, list_offsets.EARLIEST, max_num_offsets=10)
    (other,) = await ask(whole, 0, list_offsets.MAX_TIMESTAMP)
    assert (latest.error_code, latest.old_style_offsets) == (0, [6, 0])
    assert (earliest.error_code, earliest.old_style_offsets) == (0, [0])
    assert other.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_partition_that_is_asked_about_twice(tmp_path: Path) -> None:
    whole = await filled(tmp_path)
    responses = await ask(whole, 5, list_offsets.LATEST, list_offsets.EARLIEST)
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_the_leader_epoch_is_compared(tmp_path: Path, epoch: int, code: int) -> None:
    whole = await filled(tmp_path)
    (response,) = await ask(whole, 4, list_offsets.LATEST, current_leader_epoch=epoch)
    assert response.error_code == code


async def test_an_unknown_topic(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    (response,) = await ask(whole, 1, list_offsets.LATEST)
    assert (response.error_code, response.offset, response.timestamp) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


@pytest.mark.parametrize("version", [4, 8, 11])
@pytest.mark.parametrize("timestamp", [list_offsets.EARLIEST, list_offsets.EARLIEST_LOCAL, list_offsets.LATEST])
async def test_an_empty_partition_has_its_leader_s_epoch(tmp_path: Path, version: int, timestamp: int) -> None:
    whole = await Whole(tmp_path).start()
    await whole.create("t")
    (response,) = await ask(whole, version, timestamp)
    if version >= list_offsets._FIRST_VERSION[timestamp]:
        assert (response.error_code, response.offset, response.leader_epoch) == (0, 0, 0)


@pytest.mark.parametrize(("isolation_level", "offset"), [(0, 8), (1, 6)])
async def test_an_open_transaction_from_before_the_epoch_hides_no_offset(
    tmp_path: Path, isolation_level: int, offset: int
) -> None:
    whole = await filled(tmp_path)
    partition = whole.replicas.partition_or_raise(TopicPartition("t", 0))
    data = build_batch(
        [Record(Offset(number), NOW_MS, b"k", b"v") for number in range(2)],
        producer_id=ProducerId(3),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
        is_transactional=True,
    )
    partition.append_records_to_leader(memoryview(data), acks=1, now_ms=NOW_MS)
    partition.leader_epoch_start_offset = Offset(8)
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=list_offsets.LATEST)])
    response = await whole.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[asked]), 5)
    (found,) = response.topics[0].partitions
    assert (found.error_code, found.offset) == (0, offset)


@pytest.mark.parametrize("version", range(1, 12))
async def test_a_new_leader_does_not_let_a_reader_go_back_before_it_knows_how_far_the_old_one_was(
    tmp_path: Path, version: int
) -> None:
    whole = await filled(tmp_path)
    whole.replicas.partition_or_raise(TopicPartition("t", 0)).leader_epoch_start_offset = Offset(7)
    code = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    for timestamp in (list_offsets.LATEST, NOW_MS + 1002):
        (response,) = await ask(whole, version, timestamp)
        assert (response.error_code, response.offset) == (code, -1)
    for timestamp, offset in ((list_offsets.EARLIEST, 0), (NOW_MS + 1, 1)):
        (response,) = await ask(whole, version, timestamp)
        assert (response.error_code, response.offset) == (0, offset)
