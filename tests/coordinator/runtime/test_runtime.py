"""The runtime when records are durable, when they are not, and when a shard is unloaded, on replicas that the test controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.runtime.appender import BATCH_BYTES, RuntimeSettings
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, ParkedResponse, TimerChange
from pybroker.coordinator.runtime.runtime import CoordinatorRuntime
from pybroker.coordinator.state.records import from_bytes, group_tombstone, offset_record, to_bytes
from pybroker.log.results import AppendOrigin
from pybroker.model import GroupId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.purgatory.timer import OperationTimer
from pybroker.records.batch import batches
from pybroker.records.compression import CompressionType
from pybroker.replication.produce_data import REFUSED, SETTLED, PartitionProduceResult
from testing.scenes.no_wake_up import never

RECORD = group_tombstone(GroupId("g"))


@dataclass
class Shard:
    seen: list[str] = field(default_factory=list)

    def replay(self, record: CoordinatorRecord) -> bool:
        self.seen.append(record.key.group)
        return True


class Log:
    log_end_offset = 0


class Replicas:
    """Replicas that respond at once with `code`, or, if that is None, when the test calls what is in `waiting`.

    A batch that succeeds moves the high watermark. `readers` has what waits for that.
    """

    def __init__(self) -> None:
        self.code: ErrorCode | None = ErrorCode.NONE
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.readers: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self.appended: list[bytes] = []
        self.log, self.durable = Log(), 0
        self.is_leader, self.leader_epoch = True, 3

    def partition(self, _topic_partition: TopicPartition) -> Replicas:
        return self

    def high_watermark(self, _topic_partition: TopicPartition) -> int:
        return self.durable

    def await_settled(self, timeout_ms: int, acks: int, results: Any, unsettled: Any, on_complete: Any) -> None:
        ((where, end_offset),) = unsettled.items()
        assert (timeout_ms, acks, results.keys()) == (5000, -1, {where})

        def respond(code: ErrorCode) -> None:
            on_complete({where: PartitionProduceResult(code)})

        def settle(code: ErrorCode) -> None:
            respond(code)
            if not code:
                self._settle(end_offset)

        if results[where].base_offset >= 0:  # an append
            self.waiting.append(settle)
        else:
            self.readers.append((end_offset, respond))

    def _settle(self, end_offset: int) -> None:
        self.durable = max(self.durable, end_offset)
        due = [respond for end_offset, respond in self.readers if end_offset <= self.durable]
        self.readers = [reader for reader in self.readers if reader[0] > self.durable]
        for respond in due:
            respond(ErrorCode.NONE)

    def append_one(self, _where: Any, data: Any, acks: int, _now_ms: int, *more: Any) -> tuple[PartitionProduceResult, int]:
        assert (acks, more) == (-1, (None, AppendOrigin.COORDINATOR, True))
        self.appended.append(bytes(data))
        if self.code not in {None, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}:
            assert self.code is not None
            return PartitionProduceResult(self.code), REFUSED
        (batch,) = batches(data)
        self.log.log_end_offset += batch.record_count
        result = PartitionProduceResult(self.code or ErrorCode.NONE, Offset(self.log.log_end_offset - batch.record_count))
        if self.code is None:
            return result, self.log.log_end_offset
        if not self.code:
            self._settle(self.log.log_end_offset)
        return result, SETTLED

    def wake(self, _topic_partition: TopicPartition) -> None:
        pass


class RuntimeScene:
    def __init__(self) -> None:
        self.next_turn: list[Callable[[], None]] = []
        self.clock, self.replicas = ManualClock(1000), Replicas()
        self.timer = OperationTimer(self.clock, never)
        self.runtime: CoordinatorRuntime[Shard] = CoordinatorRuntime(
            RuntimeSettings(topic="__consumer_offsets", timeout_ms=5000, required_acks=-1, compression=CompressionType.NONE),
            clock=self.clock, timer=self.timer, replicas=self.replicas, new_shard=Shard,  # type: ignore[arg-type]  # a model of it
            serialize=to_bytes, call_soon=self.next_turn.append,
        )  # fmt: skip
        self.shard = self.runtime.begin_loading(0)
        self.runtime.end_loading(0, lambda _shard, _now_ms: CoordinatorResult())
        self.outcomes: list[Any] = []

    def write(self, result: CoordinatorResult, partition: int = 0) -> None:
        self.runtime.write(partition, lambda _shard, _now_ms: result, self.outcomes.append)

    def read(self) -> None:
        self.runtime.read(0, lambda shard: list(shard.seen), self.outcomes.append)


@pytest.fixture
def scene() -> RuntimeScene:
    return RuntimeScene()


def test_the_response_goes_out_when_the_records_are_durable(scene: RuntimeScene) -> None:
    scene.replicas.code = None
    scene.write(CoordinatorResult("first", [RECORD]))
    scene.write(CoordinatorResult("second", [RECORD]))
    assert scene.outcomes == []
    assert scene.shard.seen == ["g", "g"], "the next operation sees what is in the log"
    scene.read()
    assert scene.outcomes == [], "and no client gets a response"
    for respond in scene.replicas.waiting:
        respond(ErrorCode.NONE)
    assert scene.outcomes == ["first", "second", ["g", "g"]]
    scene.read()
    assert scene.outcomes[-1] == ["g", "g"]


def test_an_operation_that_writes_nothing_waits_for_what_it_saw(scene: RuntimeScene) -> None:
    scene.replicas.code = None
    scene.write(CoordinatorResult("written", [RECORD]))
    scene.write(CoordinatorResult("seen"))
    assert scene.outcomes == []
    scene.replicas.waiting.pop()(ErrorCode.NONE)
    assert scene.outcomes == ["written", "seen"]


def test_a_write_that_took_too_long_still_holds_readers_back(scene: RuntimeScene) -> None:
    """The record may become durable or be lost; no client learns of it until that is known."""
    scene.replicas.code = None
    scene.write(CoordinatorResult("response", [RECORD]))
    scene.replicas.waiting.pop()(ErrorCode.REQUEST_TIMED_OUT)
    assert scene.outcomes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    scene.read()
    scene.read()
    assert len(scene.outcomes) == 1
    (_, too_late), (_, in_time) = scene.replicas.readers
    in_time(ErrorCode.NONE)
    assert scene.outcomes[1] == ["g"]
    too_late(ErrorCode.REQUEST_TIMED_OUT)
    assert scene.outcomes[2] == ErrorCode.NOT_COORDINATOR, "which clients of every age try again"


def test_what_was_loaded_may_not_be_durable_either(scene: RuntimeScene) -> None:
    scene.replicas.log.log_end_offset = 3  # found by a recovery
    scene.runtime.unload(0)
    scene.runtime.begin_loading(0)
    scene.runtime.end_loading(0, lambda _shard, _now_ms: CoordinatorResult())
    scene.read()
    assert scene.outcomes == []
    ((end_offset, respond),) = scene.replicas.readers
    assert end_offset == 3
    respond(ErrorCode.NONE)
    assert scene.outcomes == [[]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_what_is_not_in_the_log_is_not_in_the_state(scene: RuntimeScene, code: ErrorCode, expected: ErrorCode) -> None:
    scene.replicas.code = code
    scene.write(CoordinatorResult("response", [RECORD]))
    assert (scene.outcomes, scene.shard.seen) == ([expected], [])


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_in_the_log_but_perhaps_not_for_long_is_in_the_state(scene: RuntimeScene, at_once: bool) -> None:
    scene.replicas.code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if at_once else None
    scene.write(CoordinatorResult("response", [RECORD]))
    for respond in scene.replicas.waiting:
        respond(ErrorCode.REQUEST_TIMED_OUT)
    assert (scene.outcomes, scene.shard.seen) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], ["g"])


def test_records_that_only_write_down_what_is_there_are_not_replayed(scene: RuntimeScene) -> None:
    scene.write(CoordinatorResult("response", [RECORD], is_replayed=False))
    assert (scene.outcomes, scene.shard.seen, len(scene.replicas.appended)) == (["response"], [], 1)


def test_what_comes_after_gets_the_outcome(scene: RuntimeScene) -> None:
    codes: list[ErrorCode] = []
    parked: list[Any] = []

    def after(code: ErrorCode, now_ms: int) -> CoordinatorResult:
        assert now_ms == 1000
        codes.append(code)
        return CoordinatorResult(parked_responses=[ParkedResponse(parked.append, "late")])

    for scene.replicas.code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
        scene.write(CoordinatorResult(records=[RECORD], on_durable=after))
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
    assert parked == ["late", "late"]
    assert scene.outcomes == [], "the request was parked; its response is in `parked_responses`"


def test_changes_that_are_refused_one_after_the_other_are_logged_at_the_1st_10th_and_100th(
    scene: RuntimeScene, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        lines = [record.getMessage().partition(": ")[2] for record in caplog.records]
        caplog.clear()
        return lines

    for scene.replicas.code in [ErrorCode.KAFKA_STORAGE_ERROR] * 150:
        scene.write(CoordinatorResult("response", [RECORD]))
    assert logged() == [f"KAFKA_STORAGE_ERROR ({count} in a row so far)" for count in (1, 10, 100)]
    for scene.replicas.code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
        scene.write(CoordinatorResult("response", [RECORD]))
    assert logged() == ["KAFKA_STORAGE_ERROR (1 in a row so far)"]


def test_large_changes_are_several_batches_if_they_may(scene: RuntimeScene) -> None:
    committed = CommittedOffset(Offset(0), LeaderEpoch(-1), "x" * 30_000, 1000)
    records = [offset_record(GroupId(f"g{n}"), "t", 0, committed) for n in range(50)]
    scene.replicas.code = None
    scene.write(CoordinatorResult("response", records, is_atomic=False))
    assert len(scene.replicas.appended) == 3
    assert all(len(data) < 2 * BATCH_BYTES for data in scene.replicas.appended)
    written = [
        from_bytes(record.key or b"", record.value)
        for data in scene.replicas.appended
        for batch in batches(data)
        for record in batch.records()
    ]
    assert written == records
    for respond in scene.replicas.waiting:
        assert scene.outcomes == []
        respond(ErrorCode.NONE)
    assert scene.outcomes == ["response"]
    scene.write(CoordinatorResult("whole", records))
    assert len(scene.replicas.appended) == 4


def test_an_operation_may_refuse(scene: RuntimeScene) -> None:
    def refuse(_shard: Shard, _now_ms: int) -> CoordinatorResult:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    scene.runtime.write(0, refuse, scene.outcomes.append)
    scene.write(CoordinatorResult("response"), partition=1)
    scene.runtime.begin_loading(1)
    scene.write(CoordinatorResult("response"), partition=1)
    scene.runtime.read(1, lambda shard: shard, scene.outcomes.append)
    assert scene.outcomes == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]


def test_timers(scene: RuntimeScene) -> None:
    rung: list[str] = []

    def ring(what: str) -> Callable[[Shard, int], CoordinatorResult]:
        def operation(_shard: Shard, _now_ms: int) -> CoordinatorResult:
            rung.append(what)
            return CoordinatorResult()

        return operation

    def set_timers(*changes: TimerChange) -> None:
        scene.write(CoordinatorResult(timers=list(changes)))

    set_timers(TimerChange("a", 10, ring("a")), TimerChange("b", 10, ring("b")), TimerChange("c", 0, ring("at once")))
    assert rung == ["at once"]
    scene.clock.advance(9)
    set_timers(TimerChange("a", 10, ring("a again")), TimerChange("b", None), TimerChange("nothing", None))
    for _ in range(10):
        scene.clock.advance(1)
        scene.timer.advance()
    assert rung == ["at once", "a again"]
    set_timers(TimerChange("a", 10, ring("never")))
    assert scene.runtime.unload(0) is scene.shard
    scene.clock.advance(20)
    scene.timer.advance()
    assert rung == ["at once", "a again"]


def test_an_unloaded_shard_changes_nothing_any_more(scene: RuntimeScene) -> None:
    scene.replicas.code = None
    codes: list[ErrorCode] = []

    def after(code: ErrorCode, _now_ms: int) -> CoordinatorResult:
        codes.append(code)
        return CoordinatorResult()

    scene.write(CoordinatorResult("response", [RECORD]))
    scene.write(CoordinatorResult(records=[RECORD], on_durable=after))
    scene.runtime.unload(0)
    scene.runtime.begin_loading(0)
    for respond in scene.replicas.waiting:
        respond(ErrorCode.NONE)
    assert scene.outcomes == ["response"], "its records are durable"
    assert codes == [], "its state is gone"
