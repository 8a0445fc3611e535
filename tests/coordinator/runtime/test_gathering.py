"""Each commit of a turn gets exactly one outcome, in its order, whatever fails among them."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.records import OffsetsOfTopic
from pybroker.model import GroupId, LeaderEpoch, Offset
from pybroker.network.context import ConnectionContext
from pybroker.protocol.error_codes import ErrorCode
from tests.coordinator.runtime.test_runtime import RuntimeScene

MANY = 100
OFFSET = CommittedOffset(Offset(1), LeaderEpoch(-1), "", 0)


class Bulk(OffsetsOfTopic):
    """A commit whose replay means nothing to the shard of a scene, or fails."""

    __slots__ = ("is_bad",)

    def __init__(self, number: int) -> None:
        super().__init__(GroupId("g"), "t", {number: OFFSET})
        self.is_bad = False

    def replay(self, _shard: Any) -> None:
        if self.is_bad:
            raise ZeroDivisionError


def gather_many(
    scene: RuntimeScene,
    fails: Callable[[int], bool],
    bulks: Sequence[Bulk] | None = None,
    failure: type[Exception] = ValueError,
) -> None:
    """Gather commits of as many connections; the response of each for which `fails` holds raises after it was noted."""
    made = bulks or [Bulk(number) for number in range(MANY)]

    def commit(number: int) -> None:
        def done(outcome: Any) -> None:
            scene.outcomes.append((number, outcome))
            if fails(number):
                raise failure("the response cannot be made")

        result = CoordinatorResult(number, bulks=[made[number]], may_share=True)
        scene.runtime.gather(0, lambda _shard, _now_ms: result, done, ConnectionContext(connection_id=number))

    scene.runtime._active[0].turn.is_shared = True
    for number in range(MANY):
        commit(number)
    assert scene.outcomes == []


def end_turn(scene: RuntimeScene) -> None:
    while scene.next_turn:
        scene.next_turn.pop(0)()


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_response_that_fails_keeps_none_back(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    scene = RuntimeScene()
    scene.replicas.code = code
    gather_many(scene, lambda number: number % 3 == 1)
    end_turn(scene)
    expected = {
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    }
    assert scene.outcomes == [(number, expected.get(code, number)) for number in range(MANY)]
    assert caplog.text.count("which is a bug") == MANY // 3


def test_an_append_that_fails_gives_each_one_outcome(caplog: pytest.LogCaptureFixture) -> None:
    scene = RuntimeScene()
    bulks = [Bulk(number) for number in range(MANY)]
    bulks[50].is_bad = True
    gather_many(scene, lambda number: number % 3 == 1, bulks)
    end_turn(scene)
    assert scene.outcomes == [(number, ErrorCode.UNKNOWN_SERVER_ERROR) for number in range(MANY)]
    assert caplog.text.count("which is a bug") == 1 + MANY // 3


def test_a_failure_after_the_outcomes_gives_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = RuntimeScene()
    append = scene.runtime._appender.append

    def fails_late(*args: Any, **more: Any) -> None:
        append(*args, **more)
        raise OSError("after all")

    monkeypatch.setattr(type(scene.runtime._appender), "append", lambda _self, *args, **more: fails_late(*args, **more))
    gather_many(scene, lambda number: number % 3 == 1)
    end_turn(scene)
    assert scene.outcomes == [(number, number) for number in range(MANY)]


@pytest.mark.parametrize(
    "shortage",
    [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "")],
    ids=["memory", "threads", "descriptors"],
)
def test_after_a_shortage_each_may_try_again(
    shortage: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scene = RuntimeScene()

    def fails(*_: Any) -> None:
        raise shortage

    monkeypatch.setattr(type(scene.runtime._appender), "append", fails)
    gather_many(scene, lambda number: number == 1, failure=MemoryError)
    end_turn(scene)
    assert scene.outcomes == [(number, ErrorCode.NOT_COORDINATOR) for number in range(MANY)]
    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.INFO, None)] * 2
    assert "The response to a commit to __consumer_offsets-0 failed for a shortage" in caplog.text
    subject = "The append of the commits of a turn to __consumer_offsets-0"
    assert f"{subject} failed for a shortage of memory, threads or descriptors: {shortage!r}" in caplog.text
