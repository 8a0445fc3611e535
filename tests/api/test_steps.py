"""Requests with very many elements are handled in short steps, and what they were is freed in steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pybroker.api import transactional_append
from pybroker.api.committed_offsets import LargeCommit
from pybroker.api.handlers import (
    add_partitions_to_txn,
    list_config_resources,
    list_transactions,
    update_features,
    write_txn_markers,
)
from pybroker.api.produce_layout import ProduceLayout
from pybroker.api.produce_response import failures
from pybroker.coordinator.classic import sync
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.transaction.listing import NAMES
from pybroker.metadata.features import FeatureUpdate
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.protocol.messages.update_features import FeatureUpdateKey
from pybroker.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from pybroker.records.batch import BatchView, batches
from testing.scenes.logs import batch
from testing.steps import steps_of
from tests.api.transactions import Producer, broker

if TYPE_CHECKING:
    from pybroker.metadata.image import ClusterImage

MANY = 5_000


async def results_of_markers(tmp_path: Path) -> list[dict[str, dict[int, int]]]:
    """Return the codes by topic and partition for each producer: one partition is there, and many are not."""
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    await producer.init()
    assert await producer.send(0, b"a") == ErrorCode.NONE
    values: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "coordinator_epoch": 0}
    present = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    missing = WritableTxnMarkerTopic(name="missing", partition_indexes=[*range(MANY), 1])
    markers = [WritableTxnMarker(topics=[present, missing], **values), WritableTxnMarker(topics=[present], **values)]
    response = await whole.ask(WriteTxnMarkersRequest(markers=markers), 1)
    return [
        {topic.name: {one.partition_index: one.error_code for one in topic.partitions} for topic in result.topics}
        for result in response.markers
    ]


async def test_markers_for_many_partitions_have_the_results_of_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_steps = await results_of_markers(tmp_path / "steps")
    monkeypatch.setattr(write_txn_markers, "LARGE_PARTITIONS", 10 * MANY)
    assert in_steps == await results_of_markers(tmp_path / "once")
    missing = dict.fromkeys(range(MANY), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert in_steps == [{"t": {0: int(ErrorCode.NONE)}, "missing": missing}], "one for the producer"


def test_markers_for_many_partitions_are_named_and_responded_to_in_steps() -> None:
    asked = WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[*range(MANY)])])
    steps, partitions = steps_of(write_txn_markers._partitions(asked))
    assert steps == MANY // 500
    assert partitions == [TopicPartition("t", number) for number in range(MANY)]
    steps, response = steps_of(write_txn_markers._response([(7, dict.fromkeys(partitions, ErrorCode.NONE))]))
    assert steps >= MANY // 500
    (result,) = response.markers
    assert [one.partition_index for one in result.topics[0].partitions] == [*range(MANY)]


def test_many_resources_are_listed_in_steps() -> None:
    image: Any = SimpleNamespace(topics={f"t{number}": None for number in range(MANY)}, brokers=[1], configs={})
    steps, response = steps_of(list_config_resources._list(image, [4, 2]))
    assert steps >= MANY // 1_000
    assert [one.resource_name for one in response.config_resources] == ["1", *(f"t{number}" for number in range(MANY))]


def test_many_transactions_are_listed_in_steps_and_freed() -> None:
    state = next(iter(NAMES))
    found = [(f"id{number}", SimpleNamespace(producer_id=number, state=state)) for number in range(MANY)]

    def list_ids(_: Any) -> Generator[None, None, Any]:
        yield
        return found

    services: Any = SimpleNamespace(transactions=SimpleNamespace(list_ids=list_ids))
    steps, response = steps_of(list_transactions._list(services, ListTransactionsRequest()))
    assert steps >= 2 * MANY // 1_000
    assert [one.producer_id for one in response.transaction_states] == [*range(MANY)]
    assert not found


def test_many_updates_of_features_are_read_and_responded_to_in_steps() -> None:
    asked = [FeatureUpdateKey(feature=f"f{number}", max_version_level=1, upgrade_type=1) for number in range(MANY)]
    steps, updates = steps_of(update_features._updates(asked, 1))
    assert steps >= MANY // 500
    assert updates == [FeatureUpdate(f"f{number}", 1) for number in range(MANY)]
    assert steps_of(update_features._updates([*asked, asked[3]], 1))[1] is None
    errors = [None, KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "no"), *[None] * (MANY - 2)]
    steps, (results, first) = steps_of(update_features._results(updates, errors))
    assert steps >= MANY // 500
    assert [(one.error_code, one.error_message) for one in results[:3]] == [
        (ErrorCode.NONE, None),
        (ErrorCode.INVALID_UPDATE_VERSION, "no"),
        (ErrorCode.NONE, None),
    ]
    assert len(results) == MANY
    assert first is not None
    assert first.message == "no"
    assert not updates
    assert not errors


def test_many_assignments_are_looked_at_and_freed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, bytes]] = []
    monkeypatch.setattr(sync, "group_record", lambda _, assignments: made.append(assignments))
    group: Any = SimpleNamespace(members={"a": None, "b": None, "c": None}, generation_id=1)
    others = [SyncGroupRequestAssignment(member_id=f"x{number}", assignment=b"x") for number in range(MANY)]
    ours = (("a", b"a"), ("b", b"b"), ("a", b"aa"))
    first, second, last = (SyncGroupRequestAssignment(member_id=name, assignment=value) for name, value in ours)
    request = SyncGroupRequest(group_id="g", assignments=[first, second, *others, last])
    shard: Any = None
    steps, _ = steps_of(sync._take_assignment(shard, CoordinatorResult(), group, request))
    assert steps >= MANY // 1_000
    assert made == [{"a": b"aa", "b": b"b", "c": b""}], "the last one of a member counts"
    assert request.assignments == []


def test_many_topics_are_compared_with_a_newer_image_in_steps() -> None:
    class Image:
        def __init__(self, missing: str = "") -> None:
            self.missing = missing

        def still_has(self, _: Any, names: list[str]) -> bool:
            assert len(names) <= 500
            return self.missing not in names

    topics = [AddPartitionsToTxnTopic(name=f"t{number}", partitions=[0]) for number in range(MANY)]
    images: list[Any] = [Image(), Image("t4321")]
    assert steps_of(add_partitions_to_txn._still_has(images[0], images[1], topics)) == (MANY // 500, True)
    assert steps_of(add_partitions_to_txn._still_has(images[1], images[0], topics)) == (4321 // 500, False)


def test_the_failures_of_many_topics_are_found_and_a_layout_is_freed_in_steps() -> None:
    laid_out = ProduceLayout()
    partitions = [PartitionProduceData(index=0, records=None)]
    topics = [TopicProduceData(name=f"t{number}", partition_data=[*partitions]) for number in range(MANY)]
    request, image = ProduceRequest(topic_data=topics), SimpleNamespace(topics_by_id={})
    steps, _ = steps_of(laid_out.steps(cast("ClusterImage", image), request, has_topic_ids=False))
    assert steps >= MANY // 500
    steps, failed = steps_of(failures(laid_out.topics, laid_out.refused))
    assert steps >= MANY // 500
    assert [one.topic for one, _ in failed] == [topic.name for topic in topics]
    steps, _ = steps_of(laid_out._refuse_all())
    assert steps >= MANY // 500
    assert len(laid_out.refused) == MANY
    steps, _ = steps_of(laid_out.discard({}))
    assert steps >= 2 * MANY // 1_000
    assert (laid_out.refused, laid_out.topics) == ({}, [])


def test_the_pieces_of_a_large_commit_are_freed_while_its_response_is_made() -> None:
    topics = [
        OffsetCommitRequestTopic(name=f"t{number}", partitions=[OffsetCommitRequestPartition(partition_index=0)])
        for number in range(MANY)
    ]
    known = {topic.name: SimpleNamespace(name=topic.name, partitions=[None]) for topic in topics[1:]}
    large = LargeCommit(cast("ClusterImage", SimpleNamespace(topics=known)))
    steps, _ = steps_of(large.lay_out(OffsetCommitRequest(topics=topics), has_topic_ids=False))
    assert steps >= MANY // 500
    work = large.responses(ErrorCode.NONE, lambda name, _, partitions: (name, partitions), lambda number, code: (number, code))
    pieces = len(large._pieces)
    next(work)
    assert len(large._pieces) == pieces - 1
    steps, result = steps_of(work)
    assert steps >= MANY // 500 + 2 * MANY // 1_000 - 1
    expected = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] + [ErrorCode.NONE] * (MANY - 1)
    assert result == [(topic.name, [(0, code)]) for topic, code in zip(topics, expected, strict=True)]
    assert (large._pieces, large.layout.codes, large.layout.new) == (deque(), [], [])


def transactional(present: range, batch_count: int = 1) -> tuple[Any, ProduceLayout]:
    """Return a broker whose logs know no producer, and the layout of batches of a transaction for many partitions."""
    records = bytearray(batch())
    records[22] |= 0x10
    records[53:57] = bytes(4)
    laid_out = ProduceLayout()
    laid_out.entries = {TopicPartition("t", number): memoryview(records * batch_count) for number in range(MANY)}
    laid_out.transactional = dict(laid_out.entries)
    producers = SimpleNamespace(has_open_transaction=lambda *_: False, producers={})
    replica = SimpleNamespace(log=SimpleNamespace(producers=producers))
    absence = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return (
        SimpleNamespace(
            replica_manager=SimpleNamespace(partition=lambda one: replica if one.partition in present else absence),
            config=SimpleNamespace(transaction_partition_verification_enable=True),
        ),
        laid_out,
    )


@pytest.mark.parametrize("version", [11, 12])
def test_many_batches_of_a_transaction_are_verified_in_steps(version: int) -> None:
    services, laid_out = transactional(range(10, MANY))
    steps, inquiry = steps_of(transactional_append._inquiry(services, version, laid_out))
    assert steps >= 2 * MANY // 500
    assert isinstance(inquiry, transactional_append._Inquiry)
    assert inquiry.unverified == [TopicPartition("t", number) for number in range(10, MANY)]
    outcome: dict[TopicPartition, ErrorCode] = dict.fromkeys(inquiry.unverified, ErrorCode.NONE)
    outcome[TopicPartition("t", 3_000)] = ErrorCode.PRODUCER_FENCED
    steps, guard = steps_of(inquiry.judge(outcome))
    assert steps >= (MANY - 10) // 500
    assert {one.partition: result.error_code for one, result in laid_out.refused.items()} == {
        3_000: ErrorCode.INVALID_PRODUCER_EPOCH
    }
    assert len(laid_out.entries) == MANY - 1
    assert [guard(TopicPartition("t", number)) for number in (3, 4_000)] == [ErrorCode.NONE] * 2


def test_many_batches_of_two_producers_are_refused_in_steps() -> None:
    services, laid_out = transactional(range(MANY))
    other = bytearray(laid_out.transactional[TopicPartition("t", 7)])
    other[50] ^= 1
    laid_out.transactional[TopicPartition("t", 7)] = memoryview(other)
    steps, guard = steps_of(transactional_append._inquiry(services, 12, laid_out))
    assert steps >= 2 * MANY // 500 + MANY // 1_000
    assert guard is None
    assert {result.error_code for result in laid_out.refused.values()} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert (len(laid_out.refused), laid_out.entries) == (MANY, {})


def test_a_partition_with_many_batches_of_a_transaction_is_verified_by_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BatchView] = []

    def note(one: BatchView) -> BatchView:
        seen.append(one)
        return one

    monkeypatch.setattr(transactional_append, "batches", lambda records: map(note, batches(records)))
    services, laid_out = transactional(range(MANY), batch_count=3)
    steps_of(transactional_append._inquiry(services, 12, laid_out))
    assert len(seen) == MANY


def test_many_partitions_of_a_transaction_are_compared_with_a_newer_image_in_steps() -> None:
    class Image:
        def __init__(self, *missing: str) -> None:
            self.topics = {f"t{number}": None for number in range(MANY) if f"t{number}" not in missing}

        def still_has(self, _: Any, names: set[str]) -> bool:
            assert len(names) <= 500
            return names <= self.topics.keys()

    partitions = [TopicPartition(f"t{number}", 0) for number in range(MANY)]
    images: list[Any] = [Image(), Image("t4321")]
    assert steps_of(transactional_append._still_has(images[0], images[0], partitions)) == (MANY // 500, True)
    assert steps_of(transactional_append._still_has(images[0], images[1], partitions)) == (4321 // 500, False)
    assert steps_of(transactional_append._still_has(images[1], images[0], partitions)) == (4321 // 500, False)
