"""Deliberate faults: the stories must find each of them within some seeds, or they would miss the next real fault too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

import pytest

from pybroker.coordinator import offsets
from pybroker.coordinator.runtime import loader
from pybroker.coordinator.runtime.appender import Appender
from pybroker.coordinator.runtime.loader import Loader
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.shard import GroupShard
from pybroker.coordinator.transaction import ending as endings
from pybroker.coordinator.transaction import forgetting, marker_results, operations, unattended
from pybroker.coordinator.transaction.markers import MarkerWriter
from pybroker.log.cleaner.transactions import CleanedTransactions
from pybroker.log.indexes.transaction_index import TransactionIndex
from pybroker.log.log import Log
from pybroker.log.producers.producer_state import ProducerState
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.partition import Partition
from testing.transactions.checker import kinds
from tests.transactions.story import PLANS, Story

SEEDS = 40


def _changed(owner: Any, name: str, change: Callable[..., Any]) -> Any:
    """Replace a method by `change`, which gets the original first."""
    original = getattr(owner, name)
    return mock.patch.object(owner, name, lambda *args, **options: change(original, *args, **options))


def _a_partition_without_its_marker() -> Any:
    def send(original: Any, self: MarkerWriter, ending: Any) -> Any:
        return original(self, ending._replace(partitions=frozenset(sorted(ending.partitions)[:2])))

    return _changed(MarkerWriter, "send", send)


def _aborted_by_a_commit_marker() -> Any:
    return _changed(MarkerWriter, "send", lambda original, self, ending: original(self, ending._replace(is_commit=True)))


def _no_list_of_aborted_transactions() -> Any:
    return _changed(TransactionIndex, "collect", lambda _original, *_args, **_options: iter(()))


def _readers_see_open_transactions() -> Any:
    return mock.patch.object(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def _open_transactions_forgotten_at_the_start() -> Any:
    def reload(original: Any, self: ProducerState, **options: Any) -> None:
        original(self, **options)
        self.ongoing.clear()

    return _changed(ProducerState, "reload", reload)


def _duplicates_are_appended() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(_changed(ProducerState, "find_duplicate", lambda *_: None))
    stack.enter_context(mock.patch("pybroker.log.producers.producer_state._check_sequence"))
    return stack


def _decided_ends_are_not_continued() -> Any:
    def first(original: Any, *args: Any, **options: Any) -> Any:
        result = yield from original(*args, **options)
        result.on_durable = None
        return result

    return _changed(unattended, "first_operation", first)


def _every_shard_begins_as_the_last() -> Any:
    last: dict[int, Any] = {}

    def start(original: Any, self: Loader[Any], partition: int, log: Log, loaded: Any, *examine: Any) -> None:
        last[id(self)] = loaded
        original(self, partition, log, loaded, *examine)

    def end(original: Any, self: Loader[Any], partition: int, _loaded: Any) -> None:
        original(self, partition, last[id(self)])

    stack = contextlib.ExitStack()
    stack.enter_context(_changed(Loader, "start", start))
    stack.enter_context(_changed(Loader, "_end", end))
    return stack


def _markers_before_the_decision_is_durable() -> Any:
    def end(original: Any, shard: Any, now_ms: int, transactional_id: str, *args: Any, **options: Any) -> Any:
        result = original(shard, now_ms, transactional_id, *args, **options)
        if result.records:
            shard.ending.add(transactional_id)
            ending = endings._ending(shard, transactional_id, result.records[0].value)
            result.parked_responses.append(ParkedResponse(shard.settings.send, ending))
        return result

    return _changed(operations, "end", end)


def _responses_before_the_decision_is_durable() -> Any:
    def append(original: Any, self: Appender, active: Any, batch: Any, count: int, replay: Any, appended: Any) -> None:
        original(self, active, batch, count, replay, lambda _code: None)
        appended(ErrorCode.NONE)

    return _changed(Appender, "append_batch", append)


def _acknowledged_before_fsync() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Log, "settled_end_offset", property(lambda self: self.log_end_offset)))
    stack.enter_context(mock.patch.object(Log, "is_settled", new=True))
    stack.enter_context(mock.patch("pybroker.replication.partition.Partition.check_settled", return_value=ErrorCode.NONE))
    return stack


def _generations_are_not_checked() -> Any:
    return mock.patch.object(ConsumerGroup, "check_commit", return_value=ErrorCode.NONE)


def _pending_offsets_count_as_stable() -> Any:
    def offsets_of(original: Any, shard: GroupShard, group_id: Any, **_options: Any) -> Any:
        return original(shard, group_id, is_stable=False)

    return _changed(offsets, "offsets_of", offsets_of)


def _offsets_count_before_the_marker() -> Any:
    def replay(_original: Any, self: GroupShard, _producer_id: Any, group_id: Any, topic: str, offsets: Any) -> None:
        self.replay_offsets(group_id, topic, offsets)

    return _changed(GroupShard, "replay_pending", replay)


def _offsets_of_aborted_transactions_count() -> Any:
    def replay(original: Any, self: GroupShard, producer_id: int, *, is_commit: bool) -> Any:
        return original(self, producer_id, is_commit=True)

    return _changed(GroupShard, "replay_marker", replay)


def _markers_of_offsets_are_not_loaded() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(loader, "_MARKERS", frozenset()))
    stack.enter_context(mock.patch("pybroker.coordinator.service.end_lost_transactions", return_value=()))
    return stack


def _removed_partitions_are_not_forgotten() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(forgetting, "begin", return_value=CoordinatorResult()))
    stack.enter_context(mock.patch.object(MarkerWriter, "note_removed"))
    return stack


def _deleted_partitions_are_waited_for() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(_removed_partitions_are_not_forgotten())
    stack.enter_context(mock.patch.object(marker_results, "DONE", marker_results.DONE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}))
    return stack


def _compaction_keeps_records_of_aborted_transactions() -> Any:
    def on_batch(original: Any, self: CleanedTransactions, batch: Any) -> bool:
        original(self, batch)
        self._seen.discard(batch.producer_id)  # so that the marker is dropped, and its entry in the index
        return False

    return _changed(CleanedTransactions, "on_batch", on_batch)


def _compaction_takes_aborted_records_for_newer_ones() -> Any:
    def on_batch(original: Any, self: CleanedTransactions, batch: Any) -> bool:
        is_aborted = original(self, batch)
        return is_aborted and self.index is not None  # which is None while the keys are noted

    return _changed(CleanedTransactions, "on_batch", on_batch)


FIRST_SEEDS: Final[dict[Callable[[], Any], int]] = {
    _compaction_takes_aborted_records_for_newer_ones: 9,
    _deleted_partitions_are_waited_for: 5,
    _markers_before_the_decision_is_durable: 3,
    _pending_offsets_count_as_stable: 3,
    _responses_before_the_decision_is_durable: 11,
}
"""The seeds that found a defect when this was written, where that is not one of the first: they save time, and nothing else."""


def _found(plan: str, first: int) -> Iterator[str]:
    for seed in range(first, first + SEEDS):
        yield from kinds(Story(seed, PLANS[plan]).run())


@pytest.mark.parametrize(
    ("defect", "plan", "kind"),
    [
        (_a_partition_without_its_marker, "kills", "hangs"),
        (_aborted_by_a_commit_marker, "kills", "aborted"),
        (_no_list_of_aborted_transactions, "kills", "aborted"),
        (_readers_see_open_transactions, "kills", "changed"),
        (_open_transactions_forgotten_at_the_start, "kills", "changed"),
        (_duplicates_are_appended, "kills", "twice"),
        (_decided_ends_are_not_continued, "kills", "hangs"),
        (_every_shard_begins_as_the_last, "kills", "hangs"),
        (_markers_before_the_decision_is_durable, "often", "torn"),
        (_responses_before_the_decision_is_durable, "often", "lost"),
        (_acknowledged_before_fsync, "power", "lost"),
        (_generations_are_not_checked, "pipeline", "read twice"),
        (_pending_offsets_count_as_stable, "pipeline", "read twice"),
        (_offsets_count_before_the_marker, "pipeline", "skipped"),
        (_offsets_of_aborted_transactions_count, "pipeline", "skipped"),
        (_markers_of_offsets_are_not_loaded, "pipeline", "hangs"),
        (_removed_partitions_are_not_forgotten, "removals", "stray"),
        (_deleted_partitions_are_waited_for, "removals", "hangs"),
        (_compaction_keeps_records_of_aborted_transactions, "compaction", "aborted"),
        (_compaction_takes_aborted_records_for_newer_ones, "compaction", "offset"),
    ],
)
def test_a_defect_is_found(defect: Callable[[], Any], plan: str, kind: str) -> None:
    with defect():
        assert kind in _found(plan, FIRST_SEEDS.get(defect, 1))
