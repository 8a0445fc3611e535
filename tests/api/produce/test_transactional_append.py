"""Batches of a transaction: the coordinator is asked about the partitions where the producer has no open transaction yet."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.api.produce import transactional_append
from pybroker.api.produce.layout import ProduceLayout
from pybroker.api.produce.transactional_append import verify
from pybroker.model import ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import ProduceRequest
from pybroker.records.batch import BatchView, batches
from testing.scenes.logs import batch

MANY = 50


class Coordinator:
    """A coordinator that has one outcome for each request."""

    def __init__(self, *fenced: int) -> None:
        self.asked: list[TopicPartition] = []
        self._fenced = fenced

    def ask(self, _id: str, _producer: Any, partitions: list[TopicPartition], done: Callable[[Any], None], **_: bool) -> None:
        self.asked += partitions
        done({one: ErrorCode.PRODUCER_FENCED if one.partition in self._fenced else ErrorCode.NONE for one in partitions})


def transactional(coordinator: Coordinator, present: range, batch_count: int = 1) -> tuple[Any, ProduceLayout]:
    """Return a broker whose logs know no producer, and the layout of batches of a transaction for many partitions."""
    records = bytearray(batch())
    records[22] |= 0x10
    records[53:57] = bytes(4)
    image: Any = SimpleNamespace(topics_by_id={})
    laid_out = ProduceLayout(image, ProduceRequest(), has_topic_ids=False)
    laid_out.entries = {TopicPartition("t", number): memoryview(records * batch_count) for number in range(MANY)}
    laid_out.transactional = dict(laid_out.entries)
    producers = SimpleNamespace(has_open_transaction=lambda *_: False, producers={})
    replica = SimpleNamespace(log=SimpleNamespace(producers=producers), is_leader=True, leader_epoch=3)
    absence = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return (
        SimpleNamespace(
            replica_manager=SimpleNamespace(partition=lambda one: replica if one.partition in present else absence),
            config=SimpleNamespace(transaction_partition_verification_enable=True),
            transactions=SimpleNamespace(ask=coordinator.ask),
        ),
        laid_out,
    )


@pytest.mark.parametrize("version", [11, 12])
def test_partitions_that_are_refused_are_not_appended_to(version: int) -> None:
    coordinator = Coordinator(30)
    services, laid_out = transactional(coordinator, range(10, MANY))
    guard = verify(services, version, "id", laid_out)
    assert coordinator.asked == [TopicPartition("t", number) for number in range(10, MANY)]
    codes = {one.partition: result.error_code for one, result in laid_out.refused.items()}
    assert codes == {30: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert len(laid_out.entries) == MANY - 1
    assert callable(guard)
    assert [guard(TopicPartition("t", number)) for number in (3, 40)] == [ErrorCode.NONE] * 2


def test_batches_of_two_producers_are_refused() -> None:
    coordinator = Coordinator()
    services, laid_out = transactional(coordinator, range(MANY))
    other = bytearray(laid_out.transactional[TopicPartition("t", 7)])
    other[50] ^= 1
    laid_out.transactional[TopicPartition("t", 7)] = memoryview(other)
    assert verify(services, 12, "id", laid_out) is None
    assert {result.error_code for result in laid_out.refused.values()} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert (len(laid_out.refused), laid_out.entries, coordinator.asked) == (MANY, {}, [])


def test_a_partition_with_several_batches_is_verified_by_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BatchView] = []

    def note(one: BatchView) -> BatchView:
        seen.append(one)
        return one

    monkeypatch.setattr(transactional_append, "batches", lambda records: map(note, batches(records)))
    services, laid_out = transactional(Coordinator(), range(MANY), batch_count=3)
    verify(services, 12, "id", laid_out)
    assert len(seen) == MANY


@pytest.mark.parametrize("base_sequence", [0, 7])
@pytest.mark.parametrize("change", [{"is_leader": False}, {"leader_epoch": 4}])
def test_a_broker_that_has_lost_the_leadership_refuses_as_no_leader(change: dict[str, Any], base_sequence: int) -> None:
    services, laid_out = transactional(Coordinator(), range(MANY))
    one = TopicPartition("t", 7)
    records = bytearray(laid_out.transactional[one])
    records[53:57] = base_sequence.to_bytes(4, "big")
    laid_out.transactional = {one: memoryview(records)}
    partition = services.replica_manager.partition(one)
    partition.log.producers.producers[ProducerId(0)] = "the log's state of the producer"
    guard = verify(services, 12, "id", laid_out)
    assert callable(guard)
    vars(partition).update(change)
    partition.log.producers.producers = {}  # the records that it had from the producer are dropped
    assert guard(one) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_that_does_not_lead_asks_no_coordinator() -> None:
    coordinator = Coordinator()
    services, laid_out = transactional(coordinator, range(MANY))
    services.replica_manager.partition(TopicPartition("t", 0)).is_leader = False
    guard = verify(services, 12, "id", laid_out)
    assert callable(guard)
    assert (guard(TopicPartition("t", 0)), coordinator.asked) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
