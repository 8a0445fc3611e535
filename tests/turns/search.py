"""Searches at random for requests that hold the loop, with the longest turn as the target of hypothesis.

    python -m tests.turns.search --seed 1 --examples 50
    python -m tests.turns.search --only Fetch,OffsetCommit --examples 500

A request has one array with very many elements, and a few in its others. Its names and numbers are some that the broker knows,
and others. A request that seems long is sent again, to a new broker, and is reported if it is long each time. The exit code is
the number of such requests, at most 100.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings, target
from hypothesis import strategies as st

from pybroker.api.registry import APIS, load_api
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker.protocol.schema import Field, schema_of
from pybroker.turns.watchdog import LIMIT_NS, LongTurn
from testing.scenes.api.groups import GROUP, member
from testing.scenes.api.whole import Whole, frame_of
from testing.scenes.logs import batch
from testing.turns import run_watched
from tests.api.transactions import TID, Producer

PARTITIONS = 300
TIMES, WORST_MAX = 3, 5
SETTINGS = settings(
    phases=[Phase.generate, Phase.target],
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=[*HealthCheck],
)
WAITS_S, ROUNDS_MAX = 0.02, 100
ELEMENTS_MAX = 25_000
NAMES = {
    "group": [GROUP, "other", ""],
    "transactional": [TID, "other", ""],
    "member": ["m", ""],
    "": ["t", "many", "missing", "", "__consumer_offsets"],
}
"""The texts to try, by a word in the name of the field."""
NUMBERS = [0, 0, 0, 1, 2, -1, 5, 100, (1 << 7) - 1]
OWN_TURNS = ("search", "garbage collection", "shutdown_default_executor", "_read_", "connection")
"""In the texts of turns that are the search's own."""


class Shape(NamedTuple):
    """The shape of a request. `large` is the number of the array with `elements` elements, in the order of the declaration."""

    version: int
    large: int
    elements: int
    contents: int


def arrays(cls: type, version: int) -> Iterator[Field]:
    """Yield the arrays of a message, those inside elements after the array that has these."""
    for one in schema_of(cls).fields:
        if one.versions.has(version):
            if one.is_array:
                yield one
            if one.struct is not None:
                yield from arrays(one.struct, version)


def request_of(cls: type, shape: Shape) -> Any:
    """Return the request with this shape."""
    fields = [*arrays(cls, shape.version)]
    large = fields[shape.large % len(fields)] if fields else None
    return _message(cls, shape, large, Random(shape.contents), 0)


def _message(cls: type, shape: Shape, large: Field | None, random: Random, number: int) -> Any:
    values: dict[str, Any] = {}
    for one in schema_of(cls).fields:
        if not one.versions.has(shape.version):
            continue
        value: Any = None
        if one.is_array and (one is large or not _is_null(one, shape, random)):
            count = shape.elements if one is large else random.choice([0, 1, 1, 2])
            value = [_value(one, shape, large, random, index) for index in range(count)]
        elif not one.is_array and not _is_null(one, shape, random):
            value = _value(one, shape, large, random, number)
        values[one.name] = value
    return cls(**values)


def _is_null(field: Field, shape: Shape, random: Random) -> bool:
    return field.nullable.has(shape.version) and random.random() < 0.2


def _value(field: Field, shape: Shape, large: Field | None, random: Random, number: int) -> Any:
    if field.struct is not None:
        return _message(field.struct, shape, large, random, number)
    assert field.wire is not None
    match field.wire.kind:
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice([bytes(16), random.randbytes(16)])
        case "str":
            known = next(names for word, names in NAMES.items() if word in field.name)
            is_counted = shape.contents % 3 == 0  # all names are different, or many are the same
            return f"{random.choice(known)}{number}" if is_counted else random.choice(known)
        case "bytes":
            return random.choice([b"", bytes(10), bytes(1000)])
        case "records":
            return bytes(batch(count=random.choice([1, 10])))
        case _ if field.wire.code == "d":
            return 0.5
        case _:
            return number % 100 if field.wire.code in "bB" else random.choice([number % 30_000, random.choice(NUMBERS)])


class Kept:
    """The connection's memory, in which a request stays for as long as the broker needs it: a copy is no turn of the broker."""

    has_next_request = False

    def hold_request(self, size: int) -> bool:
        """Keep the bytes."""
        return size > 0

    def release_request(self) -> None:
        """Leave them to the garbage."""


class World:
    """A broker with topics, a group of one member with offsets, and a transactional producer."""

    def __init__(self, folder: Path, partitions: int = PARTITIONS) -> None:
        asyncio.run(self._start(folder, partitions))
        self.handle = self.whole.dispatcher.handle

    async def _start(self, folder: Path, count: int) -> None:
        self.whole = await Whole(folder, offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2).start()
        await self.whole.create("t", 2)
        await self.whole.create("many", count)
        await self.whole.ask(FindCoordinatorRequest(key=GROUP), 0)
        await self.whole.ask(FindCoordinatorRequest(key=TID, key_type=1), 1)
        await member(self.whole)
        partitions = [OffsetCommitRequestPartition(partition_index=one, committed_offset=1) for one in range(count)]
        await self.whole.ask(
            OffsetCommitRequest(group_id="other", topics=[OffsetCommitRequestTopic(name="many", partitions=partitions)]), 2
        )
        producer = Producer(self.whole, 2)
        await producer.init()
        await producer.send(0, b"x")
        self.whole.connection.holder = Kept()

    def longest(self, request: Any, version: int) -> LongTurn | None:
        """Send a request, let time pass until it has its response, and return the longest turn of the broker."""
        frame = frame_of(request, version, "search")

        async def search() -> None:
            self._use(asyncio.get_running_loop())
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(handle)
            for _ in range(ROUNDS_MAX):
                if sent and not isinstance(sent[0], asyncio.Future):
                    break
                if sent:
                    await asyncio.wait(sent, timeout=WAITS_S)
                    if sent[0].done():
                        break
                    self.whole.clock.advance(1_000)
                    self.whole.timer._woken()
                await asyncio.sleep(0)
            else:
                sent[0].cancel()
            with suppress(asyncio.CancelledError, ProtocolViolation):
                if isinstance(sent[0], asyncio.Future):
                    await sent[0]

        def handle() -> None:
            try:
                sent.append(self.handle(self.whole.connection, frame))
            except ProtocolViolation:  # closes the connection
                sent.append(None)

        sent: list[Any] = []
        turns = run_watched(search, limit_ms=1)
        found = [turn for turn in turns.long if not any(word in turn.what for word in OWN_TURNS)]
        return max(found, key=lambda turn: turn.held_ns, default=None)

    def _use(self, loop: asyncio.AbstractEventLoop) -> None:
        self.whole.call_soon = loop.call_soon
        self.whole.timer.slice_s = 0.005
        self.whole.timer._call_at = lambda _at_ms, work: loop.call_soon(work)

    def close(self) -> None:
        """Close the files of the logs."""
        self.whole.logs.abandon()


class Found(NamedTuple):
    """A request that holds the loop."""

    api: str
    shape: Shape
    turn: LongTurn

    def __str__(self) -> str:
        return f"{self.api} v{self.shape.version}, {self.shape}: {self.turn}"


class Search:
    """The search among the requests of one API. `new_world` starts a broker."""

    def __init__(
        self, key: int, *, elements_max: int, limit_ms: float = LIMIT_NS / 1e6, new_world: Callable[[Path], World] = World
    ) -> None:
        self._api = load_api(key)
        self._elements_max = elements_max
        self._limit_ns = int(limit_ms * 1e6)
        self._new_world = new_world
        self._suspects: dict[Shape, int] = {}

    @contextmanager
    def _world(self) -> Iterator[World]:
        with tempfile.TemporaryDirectory() as folder:
            world = self._new_world(Path(folder))
            try:
                yield world
            finally:
                world.close()

    def _longest(self, world: World, shape: Shape) -> LongTurn | None:
        return world.longest(request_of(self._api.request, shape), shape.version)

    def run(self, *, examples: int, number: int) -> list[Found]:
        """Draw this many requests, with `number` as the seed, and return those that hold the loop each time."""
        api = self._api
        shapes = st.builds(
            Shape,
            st.integers(api.lowest, api.highest),
            st.integers(0, 7),
            st.integers(0, self._elements_max),
            st.integers(0, 1 << 16),
        )
        with self._world() as world:

            @seed(number)
            @settings(SETTINGS, max_examples=examples)
            @given(shapes)
            def look(shape: Shape) -> None:
                turn = self._longest(world, shape)
                held_ns = 0 if turn is None else turn.held_ns
                target(held_ns / 1e6)
                if held_ns > self._limit_ns:
                    self._suspects[shape] = held_ns

            look()
        worst = sorted(self._suspects, key=lambda one: -self._suspects[one])[:WORST_MAX]
        return [found for shape in worst if (found := self._confirmed(shape))]

    def _confirmed(self, shape: Shape) -> Found | None:
        turns = []
        for _ in range(TIMES):
            with self._world() as world:
                turn = self._longest(world, shape)
            if turn is None or turn.held_ns <= self._limit_ns:
                return None
            turns.append(turn)
        return Found(self._api.name, shape, min(turns, key=lambda turn: turn.held_ns))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=20, help="requests of each API")
    parser.add_argument("--elements", type=int, default=ELEMENTS_MAX, help="at most, in one array")
    parser.add_argument("--only", default="", help="names of APIs, separated by commas")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    count = 0
    for key, served in APIS.items():
        if not only or served.name in only:
            found = Search(key, elements_max=arguments.elements).run(examples=arguments.examples, number=arguments.seed)
            print(f"{served.name}: {len(found)} of {arguments.examples} hold the loop", *found, sep="\n    ", flush=True)
            count += len(found)
    return min(count, 100)


if __name__ == "__main__":
    sys.exit(main())
