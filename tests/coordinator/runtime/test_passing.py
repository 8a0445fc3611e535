"""Operations on other parts of a shard pass the work that holds it. All others wait; those on a part keep their order."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pybroker.coordinator.records import CommittedOffset, OffsetsOfTopic, group_tombstone
from pybroker.coordinator.runtime.holding import Holding, Parts
from pybroker.coordinator.runtime.result import CoordinatorResult, LongOperation, TimerChange
from pybroker.model import GroupId, LeaderEpoch, Offset
from pybroker.network.context import ConnectionContext
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import batches
from pybroker.sharing import work as sharing
from tests.coordinator.runtime.test_holding import not_expected
from tests.coordinator.runtime.test_long_operations import MANY, NAMES, turns
from tests.coordinator.runtime.test_runtime import RECORD, RuntimeScene, Shard

OFFSET = CommittedOffset(Offset(1), LeaderEpoch(-1), "", 0)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> RuntimeScene:
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    return RuntimeScene()


def hold(scene: RuntimeScene, *parts: str, steps: int = 3) -> None:
    """Hold these parts of the shard with an operation of several steps, or all of it."""

    def operation(_shard: Shard, _now_ms: int) -> LongOperation:
        for _ in range(steps):
            yield
        return CoordinatorResult("long", list(MANY))

    scene.runtime.write(0, operation, scene.outcomes.append, parts=parts or None)


def write(scene: RuntimeScene, result: CoordinatorResult, *parts: str) -> None:
    scene.runtime.write(0, lambda _shard, _now_ms: result, scene.outcomes.append, parts=parts or None)


def test_what_is_about_another_part_passes(scene: RuntimeScene) -> None:
    hold(scene, "a")
    write(scene, CoordinatorResult("of b", [RECORD]), "b")
    scene.runtime.read(0, lambda shard: list(shard.seen), scene.outcomes.append, parts=("c",))
    write(scene, CoordinatorResult("of a"), "a")
    write(scene, CoordinatorResult("of b and a"), "b", "a")
    assert scene.outcomes == ["of b", ["g"]]
    turns(scene)
    assert scene.outcomes[2:] == ["long", "of a", "of b and a"]
    assert scene.shard.seen == ["g", *NAMES], "the log has them in the order of their effects"


@pytest.mark.parametrize("parts", [(), ("a",)])
def test_what_names_no_part_neither_passes_nor_is_passed(scene: RuntimeScene, parts: tuple[str, ...]) -> None:
    hold(scene, *parts)
    write(scene, CoordinatorResult("of all"))
    write(scene, CoordinatorResult("of b"), "b")
    assert scene.outcomes == []
    turns(scene)
    assert scene.outcomes == ["long", "of all", "of b"]


def test_nothing_passes_what_waits_for_the_same_part(scene: RuntimeScene) -> None:
    hold(scene, "a")
    write(scene, CoordinatorResult("first"), "a", "b")
    write(scene, CoordinatorResult("second"), "b")
    write(scene, CoordinatorResult("third"), "c")
    assert scene.outcomes == ["third"]
    turns(scene)
    assert scene.outcomes == ["third", "long", "first", "second"]


def test_the_rest_of_long_work_that_passes_waits_and_holds_its_part(scene: RuntimeScene) -> None:
    hold(scene, "a", steps=30)

    def operation(_shard: Shard, _now_ms: int) -> LongOperation:
        scene.outcomes.append("begun")
        yield
        return CoordinatorResult("long of b", list(MANY))

    scene.runtime.write(0, operation, scene.outcomes.append, parts=("b",))
    write(scene, CoordinatorResult("of b", [RECORD]), "b")
    write(scene, CoordinatorResult("of c"), "c")
    assert scene.outcomes == ["begun", "of c"]
    turns(scene)
    assert scene.outcomes[2:] == ["long", "long of b", "of b"]
    assert scene.shard.seen == [*NAMES, *NAMES, "g"]


def test_what_passes_is_as_free_as_on_a_free_shard(scene: RuntimeScene) -> None:
    """The follow-up of an operation passes, too, and so does what comes because of the response."""
    hold(scene, "a")

    def after(_code: ErrorCode, _now_ms: int) -> CoordinatorResult:
        scene.outcomes.append("after")
        return CoordinatorResult()

    def done(outcome: object) -> None:
        scene.outcomes.append(outcome)
        write(scene, CoordinatorResult("next"), "b")

    result = CoordinatorResult("first", on_durable=after)
    scene.runtime.write(0, lambda _shard, _now_ms: result, done, parts=("b",))
    assert scene.outcomes == ["first", "next", "after"]


def test_an_error_of_what_passes_is_its_own(scene: RuntimeScene) -> None:
    def fails(_shard: Shard, _now_ms: int) -> CoordinatorResult:
        raise ZeroDivisionError

    def fails_in_a_step(_shard: Shard, _now_ms: int) -> LongOperation:
        raise ZeroDivisionError
        yield

    hold(scene, "a")
    for operation in (fails, fails_in_a_step):
        with pytest.raises(ZeroDivisionError):
            scene.runtime.write(0, operation, scene.outcomes.append, parts=("b",))
    write(scene, CoordinatorResult("of b"), "b")
    turns(scene)
    assert scene.outcomes == ["of b", "long"]


def test_commits_of_other_groups_are_gathered_while_the_shard_is_held(scene: RuntimeScene) -> None:
    class Commit(OffsetsOfTopic):
        def replay(self, shard: Any) -> None:
            shard.seen.append(self.group_id)

    def commit(group: str, connection: int) -> None:
        result = CoordinatorResult(group, bulks=[Commit(GroupId(group), "t", {0: OFFSET})], may_share=True)
        source = ConnectionContext(connection_id=connection)
        scene.runtime.gather(0, lambda _shard, _now_ms: result, scene.outcomes.append, source, parts=(group,))

    hold(scene, "a")
    commit("b", 1)
    assert scene.outcomes == ["b"], "the first of a turn is appended at once"
    commit("c", 2)
    commit("a", 3)
    commit("d", 4)
    assert scene.outcomes == ["b"]
    scene.runtime.read(0, lambda shard: list(shard.seen), scene.outcomes.append, parts=("d",))
    assert scene.outcomes == ["b", "c", "d", ["b", "c", "d"]], "a read appends what was gathered before it"
    turns(scene)
    assert scene.outcomes[4:] == ["long", "a"]


def test_a_timer_of_another_part_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = RuntimeScene()
    scene.runtime.parts_of_timer = lambda key: key[1:] if isinstance(key, tuple) else None
    rung: list[object] = []

    def ring(key: object) -> TimerChange:
        return TimerChange(key, 10, lambda _shard, _now_ms: rung.append(key) or CoordinatorResult())

    keys: list[object] = [("session", "b"), ("session", "a"), "clean up"]
    scene.write(CoordinatorResult(timers=[ring(key) for key in keys]))
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    hold(scene, "a")
    scene.clock.advance(10)
    scene.timer.advance()
    assert rung == keys[:1]
    turns(scene)
    assert rung == keys


def test_a_shard_that_is_unloaded_gives_each_an_outcome(scene: RuntimeScene) -> None:
    hold(scene, "a")
    write(scene, CoordinatorResult("of b", list(MANY)), "b")
    write(scene, CoordinatorResult("of a"), "a")
    scene.runtime.unload(0)
    turns(scene)
    assert scene.outcomes == [ErrorCode.NOT_COORDINATOR] * 3


@pytest.mark.parametrize("seed", range(30))
def test_operations_on_each_part_keep_their_order_and_the_log_shows_their_effects(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation is done once; those that share a part are done in the order in which they came, also in the log."""
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    scene, draw = RuntimeScene(), random.Random(seed)
    sent: list[tuple[int, frozenset[str]]] = []

    def send(number: int) -> None:
        parts = frozenset(draw.sample("abcde", draw.choice([1, 1, 1, 2]))) if draw.random() < 0.95 else frozenset("abcde")
        kind, steps, count = draw.choice(["write", "long", "read"]), draw.randrange(6), draw.choice([0, 1, 150])
        sent.append((number, parts))
        records = [group_tombstone(GroupId(f"{number}"))] * max(count, 1)

        def in_steps(_shard: Shard, _now_ms: int) -> LongOperation:
            for _ in range(steps):
                yield
            return CoordinatorResult(number, list(records))

        named = None if len(parts) == 5 else parts
        if kind == "long":
            scene.runtime.write(0, in_steps, scene.outcomes.append, parts=named)
        elif kind == "write":
            result = CoordinatorResult(number, list(records))
            scene.runtime.write(0, lambda _shard, _now_ms: result, scene.outcomes.append, parts=named)
        else:
            scene.runtime.read(0, lambda _shard: number, scene.outcomes.append, parts=named)

    for number in range(60):
        send(number)
        for _ in range(draw.choice([0, 0, 1, 2, 10])):
            if scene.next_turn:
                scene.next_turn.pop(0)()
    turns(scene)
    assert sorted(scene.outcomes) == list(range(60))
    logged = [batch for one in scene.replicas.appended for batch in batches(memoryview(bytearray(one)))]
    of_log = [int(next(iter(batch.records())).key[4:]) for batch in logged]  # type: ignore[index]  # type and length of the name
    assert len(set(of_log)) == len(of_log), "the records of an operation are one batch"
    replayed = [int(name) for name in dict.fromkeys(scene.shard.seen)]
    assert sorted(replayed) == sorted(of_log)
    for part in "abcde":
        numbers = [number for number, parts in sent if part in parts]
        assert [number for number in scene.outcomes if number in numbers] == numbers
        written = [number for number in numbers if number in of_log]
        assert [number for number in of_log if number in numbers] == written
        assert [number for number in replayed if number in numbers] == written


def two_steps() -> Generator[None, None, None]:
    yield
    yield


def test_what_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "SLICE_S", 0.0)
    next_turn: list[Callable[[], None]] = []
    holding = Holding(next_turn.append)

    def passing() -> list[Parts]:
        return [parts for parts in (("a",), ("b",), ("c",), ("c", "b")) if holding.may_pass(parts)]

    holding.pause()
    assert passing() == [("a",), ("b",), ("c",), ("c", "b")]
    assert not holding.may_pass(None)
    seen: list[object] = []
    holding.wait(lambda: seen.append(passing()), not_expected, ("b",))
    assert passing() == [("a",), ("c",)]
    holding.wait(lambda: holding.run(two_steps(), not_expected, ("a", "b", "b")), not_expected, ("a", "b", "b"))
    assert passing() == [("c",)]
    next_turn.pop()()
    assert seen == [[]], "nothing passes what is done in the same turn"
    assert passing() == [("c",)]
    while next_turn:
        assert holding.is_held
        next_turn.pop()()
    assert not holding.is_held
    assert not holding._waiting_parts
