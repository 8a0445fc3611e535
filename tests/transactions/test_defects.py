"""Deliberate faults: the stories must find each of them within some seeds, or they would miss the next real fault too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from pybroker.coordinator.runtime.appender import Appender
from pybroker.coordinator.runtime.loader import Loader
from pybroker.coordinator.runtime.result import ParkedResponse
from pybroker.coordinator.transaction import ending as endings
from pybroker.coordinator.transaction import operations, unattended
from pybroker.coordinator.transaction.markers import MarkerWriter
from pybroker.log.log import Log
from pybroker.log.producer_state import ProducerState
from pybroker.log.transaction_index import TransactionIndex
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
    return _changed(TransactionIndex, "collect", lambda _original, *_args, **_options: ([], False))


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
    stack.enter_context(mock.patch("pybroker.log.producer_state._check_sequence"))
    return stack


def _decided_ends_are_not_continued() -> Any:
    def first(original: Any, *args: Any, **options: Any) -> Any:
        result = original(*args, **options)
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
    def append(original: Any, self: Appender, active: Any, ends: Any, replay: Any, appended: Any) -> None:
        original(self, active, ends, replay, lambda _code: None)
        appended(ErrorCode.NONE)

    return _changed(Appender, "append", append)


def _acknowledged_before_fsync() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Log, "settled_end_offset", property(lambda self: self.log_end_offset)))
    stack.enter_context(mock.patch.object(Log, "is_settled", new=True))
    stack.enter_context(mock.patch("pybroker.replication.partition.Partition.check_settled", return_value=ErrorCode.NONE))
    return stack


def _found(plan: str) -> Iterator[str]:
    for seed in range(1, SEEDS + 1):
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
    ],
)
def test_a_defect_is_found(defect: Callable[[], Any], plan: str, kind: str) -> None:
    with defect():
        assert kind in _found(plan)
