"""Requests with very many elements are handled in short steps, and what they were is freed in steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pybroker.api import transactional_append
from pybroker.api.produce_layout import ProduceLayout
from pybroker.api.produce_response import failures
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import BatchView, batches
from testing.scenes.logs import batch
from testing.steps import steps_of

if TYPE_CHECKING:
    from pybroker.metadata.image import ClusterImage

MANY = 5_000


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
