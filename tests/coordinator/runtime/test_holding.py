"""Thousands of operations wait for a shard that is held: each is done once, in its order, whatever fails among them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Generator

import pytest

from pybroker.coordinator.runtime import holding as holding_module
from pybroker.coordinator.runtime.holding import Holding
from pybroker.coordinator.runtime.result import CoordinatorResult, LongOperation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing import work as sharing
from tests.coordinator.runtime.test_long_operations import long_operation, turns
from tests.coordinator.runtime.test_runtime import RECORD, RuntimeScene, Shard

MANY = 2_000


class Loop:
    """The loop of a scene. `raised` gets the exceptions of a turn, as the exception handler of a loop does."""

    def __init__(self, next_turn: list[Callable[[], None]]) -> None:
        self.next_turn = next_turn
        self.raised: list[Exception] = []

    def run(self) -> None:
        while self.next_turn:
            try:
                self.next_turn.pop(0)()
            except Exception as error:
                self.raised.append(error)


def not_expected(error: Exception) -> None:
    raise error


def one_step() -> Generator[None, None, None]:
    yield


def operation_of(scene: RuntimeScene, number: int, begun: list[int]) -> None:
    """Write an operation of one of five kinds, two of which fail."""

    def in_steps(_shard: Shard, _now_ms: int) -> LongOperation:
        begun.append(number)
        yield
        if number % 5 == 1:
            raise ZeroDivisionError
        return CoordinatorResult(number, [RECORD])

    def at_once(_shard: Shard, _now_ms: int) -> CoordinatorResult:
        begun.append(number)
        if number % 5 == 2:
            raise ZeroDivisionError
        return CoordinatorResult(number, [RECORD] if number % 5 == 3 else [])

    def done(outcome: object) -> None:
        scene.outcomes.append((number, outcome))
        if number % 7 == 3:
            raise ValueError("the response cannot be made")

    scene.runtime.write(0, in_steps if number % 5 < 2 else at_once, done)


@pytest.mark.parametrize("slice_s", [60.0, 0.0])
def test_each_that_waits_is_done_once_and_in_its_order(
    slice_s: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = RuntimeScene()
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    long_operation(scene)
    begun: list[int] = []
    for number in range(MANY):
        operation_of(scene, number, begun)
    monkeypatch.setattr(sharing, "SLICE_S", slice_s)
    with caplog.at_level(logging.CRITICAL):  # thousands of tracebacks take seconds
        Loop(scene.next_turn).run()
    assert begun == list(range(MANY))
    failures = {1, 2}
    assert scene.outcomes == [
        "long",
        *((number, ErrorCode.UNKNOWN_SERVER_ERROR if number % 5 in failures else number) for number in range(MANY)),
    ]
    scene.write(CoordinatorResult("at once"))
    assert scene.outcomes[-1] == "at once"


def test_what_comes_because_of_a_response_waits_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = RuntimeScene()
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    long_operation(scene)

    def done(outcome: object) -> None:
        scene.outcomes.append(outcome)
        scene.write(CoordinatorResult("third"))

    scene.runtime.write(0, lambda _shard, _now_ms: CoordinatorResult("first"), done)
    scene.write(CoordinatorResult("second", [RECORD]))
    turns(scene)
    assert scene.outcomes == ["long", "first", "second", "third"]


def test_a_fault_of_the_log_keeps_no_response_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_values: object, **_more: object) -> None:
        raise OSError("the log is full")

    scene = RuntimeScene()
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    monkeypatch.setattr(logging.Logger, "error", fails)
    long_operation(scene)
    begun: list[int] = []
    for number in range(8):
        operation_of(scene, number, begun)
    loop = Loop(scene.next_turn)
    loop.run()
    assert [outcome[0] for outcome in scene.outcomes[1:]] == list(range(8))
    assert [type(error) for error in loop.raised] == [OSError] * 5, "the loop gets them, of 1, 2, 3, 6 and 7"


def test_nothing_waits_for_a_shard_that_is_not_held() -> None:
    next_turn: list[Callable[[], None]] = []
    holding = Holding(next_turn.append)
    served: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    holding.pause()
    holding.wait(interrupted, not_expected)
    holding.wait(lambda: served.append("next"), not_expected)
    with pytest.raises(KeyboardInterrupt):
        next_turn.pop()()
    assert holding.is_held
    next_turn.pop()()
    assert (served, holding.is_held, next_turn) == (["next"], False, [])


def test_all_that_is_served_in_a_turn_shares_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(sharing, "SLICE_S", 100)
    for module in (sharing, holding_module):
        monkeypatch.setattr(module, "perf_counter", lambda: next(clock))  # each look takes a unit
    next_turn: list[Callable[[], None]] = []
    holding = Holding(next_turn.append)
    holding.pause()
    served: list[int] = []

    def work(number: int) -> None:
        served.append(number)
        holding.run(one_step(), not_expected)

    for number in range(MANY):
        holding.wait(lambda number=number: work(number), not_expected)  # type: ignore[misc]
    turn_count = 0
    while next_turn:
        before = next(clock)
        next_turn.pop()()
        assert next(clock) - before <= 105
        turn_count += 1
    assert served == list(range(MANY))
    assert turn_count == MANY * 2 // 100
