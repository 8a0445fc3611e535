"""An operation that takes long holds its shard: whatever comes meanwhile waits, in its order, and sees all of it or nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pybroker.coordinator.runtime.result import CoordinatorResult, TimerChange
from pybroker.coordinator.state.records import group_tombstone
from pybroker.model import CoordinatorEpoch, GroupId, ProducerEpoch, ProducerId
from pybroker.network.context import ConnectionContext
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import batches
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.sharing import work
from pybroker.sharing.work import Pausing
from tests.coordinator.runtime.test_runtime import RECORD, RuntimeScene, Shard

MANY = [group_tombstone(GroupId(f"g{number}")) for number in range(250)]
NAMES = [f"g{number}" for number in range(250)]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> RuntimeScene:
    monkeypatch.setattr(work, "SLICE_S", 0.0)
    return RuntimeScene()


def turns(scene: RuntimeScene) -> None:
    """Give the loop its turns until nothing is left for them."""
    while scene.next_turn:
        scene.next_turn.pop(0)()


def long_operation(scene: RuntimeScene, **fields: Any) -> None:
    def operation(_shard: Shard, _now_ms: int) -> Pausing[CoordinatorResult]:
        for _ in range(3):
            yield
        return CoordinatorResult("long", list(MANY), **fields)

    scene.runtime.write(0, operation, scene.outcomes.append)


def test_what_comes_meanwhile_waits_in_its_order(scene: RuntimeScene) -> None:
    seen: list[int] = []

    def after(_code: ErrorCode, _now_ms: int) -> CoordinatorResult:
        seen.append(len(scene.shard.seen))
        return CoordinatorResult()

    long_operation(scene, on_durable=after)
    scene.write(CoordinatorResult("next", [RECORD]))
    scene.read()
    scene.runtime.gather(
        0, lambda _shard, _now_ms: CoordinatorResult("gathered"), scene.outcomes.append, ConnectionContext(connection_id=1)
    )
    assert (scene.outcomes, scene.replicas.appended) == ([], [])
    turns(scene)
    assert scene.outcomes == ["long", "next", [*NAMES, "g"], "gathered"]
    assert [count >= len(MANY) for count in seen] == [True], "what follows the records comes after they are replayed"
    assert [sum(batch.record_count for batch in batches(memoryview(bytearray(one)))) for one in scene.replicas.appended] == [
        250,
        1,
    ]
    scene.write(CoordinatorResult("at once"))
    assert scene.outcomes[-1] == "at once"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KafkaError(ErrorCode.INVALID_REQUEST), ErrorCode.INVALID_REQUEST, ""),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR, "which is a bug"),
        (MemoryError(), ErrorCode.NOT_COORDINATOR, "An operation on __consumer_offsets-0 failed for a shortage"),
    ],
    ids=["refusal", "bug", "shortage"],
)
def test_a_failure_in_a_later_slice_ends_the_operation_and_no_other(
    scene: RuntimeScene, caplog: pytest.LogCaptureFixture, error: Exception, code: ErrorCode, line: str
) -> None:
    caplog.set_level(logging.INFO)

    def operation(_shard: Shard, _now_ms: int) -> Pausing[CoordinatorResult]:
        yield
        raise error

    scene.runtime.write(0, operation, scene.outcomes.append)
    scene.read()
    turns(scene)
    assert scene.outcomes == [code, []]
    assert line in caplog.text
    assert bool(caplog.text) is bool(line)
    assert [bool(record.exc_info) for record in caplog.records] == ([] if not line else [code == ErrorCode.UNKNOWN_SERVER_ERROR])


def test_a_shard_that_is_unloaded_meanwhile_writes_nothing(scene: RuntimeScene) -> None:
    timers: list[str] = []
    scene.write(CoordinatorResult(timers=[TimerChange("t", 1, lambda _shard, _now: timers.append("x") or CoordinatorResult())]))
    long_operation(scene)
    scene.clock.advance(1)
    scene.timer.advance()  # waits for the shard
    scene.write(CoordinatorResult("next", [RECORD]))
    scene.runtime.unload(0)
    turns(scene)
    assert scene.outcomes == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert (scene.replicas.appended, timers) == ([], [])


def test_a_timer_that_is_started_again_while_it_waits_runs_once(scene: RuntimeScene) -> None:
    rung: list[str] = []

    def ring(text: str) -> TimerChange:
        return TimerChange("session", 10, lambda _shard, _now_ms: rung.append(text) or CoordinatorResult())

    def operation(_shard: Shard, _now_ms: int) -> Pausing[CoordinatorResult]:
        yield
        yield
        return CoordinatorResult(timers=[ring("second")])

    scene.write(CoordinatorResult(timers=[ring("first")]))
    scene.runtime.write(0, operation, scene.outcomes.append)
    scene.clock.advance(10)
    scene.timer.advance()
    turns(scene)
    assert rung == []
    scene.clock.advance(10)
    scene.timer.advance()
    assert rung == ["second"]


def test_a_marker_is_replayed_in_slices(scene: RuntimeScene) -> None:
    marker = build_transaction_marker(
        TransactionMarker(ControlType.COMMIT, CoordinatorEpoch(0)),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=1000,
    )

    def replay(shard: Shard) -> Pausing[None]:
        for name in ("a", "b", "c"):
            shard.seen.append(name)
            yield

    def complete() -> None:
        scene.runtime.complete_transaction(0, memoryview(marker), replay, scene.outcomes.append)

    complete()
    complete()
    scene.read()
    assert (scene.outcomes, scene.shard.seen, len(scene.replicas.appended)) == ([], ["a"], 1)
    turns(scene)
    assert scene.outcomes == [ErrorCode.NONE, ErrorCode.NONE, ["a", "b", "c"] * 2]
