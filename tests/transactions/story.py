"""The lives of a broker with transactional writers and readers, drawn from a seed.

In each life the process ends at some operation of its disk or store: it is killed, or the machine loses its power. The writers
and readers survive. In the last life the writers begin again, which ends what is open, and everything is read.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from dataclasses import dataclass
from random import Random
from typing import Final

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.names import TRANSACTION_STATE_TOPIC
from pybroker.metadata.new_topic import NewTopic
from testing.simulation.broker import START_MS, Process, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.store import StoreContents
from testing.transactions.checker import problems
from testing.transactions.history import History
from tests.transactions.connection import Connection
from tests.transactions.readers import Reader, read_all, watch
from tests.transactions.writer import TOPIC, Writer

DIRECTORIES: Final = ("/a", "/b")
LIFE_S: Final = 100.0
"""The time of the clock after which a life ends, even if its writers wait for something."""
SETTLED_S: Final = 60.0
"""The time of the clock after which everything that was begun has ended."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How stories are drawn. `loses_power`: the machine stops, not only the process; flush settings keep the promises then."""

    lives: int = 3
    writers: int = 3
    partitions: int = 3
    transactions: int = 8
    """How many each writer begins in a life."""
    operations: int = 500
    """The largest number of disk operations after which a life ends, at one of the next ones."""
    loses_power: bool = False
    versions: tuple[int, ...] = (1, 2)


PLANS: Final = {
    "kills": Plan(),
    "power": Plan(loses_power=True),
    "often": Plan(loses_power=True, lives=8, operations=150, writers=4),
}


class Story:
    """The story of a seed. `run` returns the problems; `notes` has what happened to the broker."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self._seed, self._plan = seed, plan
        self._random = Random(seed)
        self.history = History()
        self.notes: list[str] = []
        self._stuck: list[str] = []
        self._config = _config(is_flushed=plan.loses_power)
        self._disk: SimulatedDisk | None = None
        self._contents: StoreContents | None = None
        self._now_ms = START_MS
        self._writers = [self._new_writer(number, 0) for number in range(plan.writers)]
        self._readers = [
            Reader(f"reader {number}", number % plan.partitions, Random(self._random.getrandbits(32)))
            for number in range(plan.partitions + 1)
        ]

    def _new_writer(self, number: int, instance: int) -> Writer:
        version = self._random.choice(self._plan.versions)
        random = Random(self._random.getrandbits(32))
        return Writer(f"writer {number}.{instance}", f"id-{number}", version, random, self.history)

    def run(self) -> list[str]:
        """Live all lives, and return what is wrong."""
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            for life in range(self._plan.lives):
                self._live(life)
            self._end()
        finally:
            logging.disable(before)
        return self._stuck + problems(self.history)

    def _world(self) -> World:
        world = World(
            seed=self._random.getrandbits(32), disk=self._disk, contents=self._contents, now_ms=self._now_ms, interleaving=0.02
        )
        if self._disk is None:
            for path in DIRECTORIES:
                world.disk.make_directory(path)
            world.disk.sync_directory("/")
        return world

    def _live(self, life: int) -> None:
        world = self._world()
        last = self._random.randrange(20, self._plan.operations)
        with world.process(self._config) as process:
            process.run(self._act(process, world, life, last))
        assert self._disk is not None
        if self._plan.loses_power:
            seed = self._random.choice((None, self._random.getrandbits(30)))
            self._disk.crash(None if seed is None else Random(seed))
            self.notes.append(f"the power is lost ({seed})")
        else:
            self._disk.kill()
            self.notes.append("the process is killed")
        for number in range(self._plan.writers):
            if self._random.random() < 0.3:
                self._writers[number] = self._new_writer(number, life + 1)

    async def _act(self, process: Process, world: World, life: int, last: int) -> None:
        await process.broker.start()
        if life == 0:
            new = NewTopic(name=TOPIC, partition_count=self._plan.partitions, configs={})
            await process.broker.controller.create_topics([new])
            await process.broker.controller.create_missing_topics([TRANSACTION_STATE_TOPIC])
        connection, over = Connection(process.broker), asyncio.Event()

        def stop(operation: str) -> None:
            connection.is_closed = True
            self.notes.append(f"life {life} ends before {operation}")
            self._disk, self._contents, self._now_ms = world.disk.fork(), world.contents.fork(), world.clock.time_ms()
            over.set()

        count = 0
        awaited = self._random.choice(("", "sync", "__transaction_state"))  # any operation, or where a loss tears most

        def on_operation(kind: str, path: str) -> None:
            nonlocal count
            count += 1
            if count >= last and not connection.is_closed and awaited in f"{kind} {path}":
                stop(f"{kind} {path}")

        world.disk.on_operation = world.contents.on_operation = on_operation
        writing = [asyncio.ensure_future(self._write(writer, connection)) for writer in self._writers]
        others = [asyncio.ensure_future(reader.live(connection)) for reader in self._readers]
        others.append(asyncio.ensure_future(watch(connection, self._plan.partitions, self.history, self._random)))
        if self._random.random() < 0.5:
            number = self._random.randrange(self._plan.writers)
            second = self._new_writer(number, 100 + life)
            writing.append(asyncio.ensure_future(self._take_over(second, connection)))
            self._writers[number] = second
        _, waiting = await asyncio.wait(writing, timeout=LIFE_S)
        if not connection.is_closed:
            stop("the next operation" if waiting else "the end")
        await asyncio.gather(*writing, *others)

    async def _write(self, writer: Writer, connection: Connection) -> None:
        await writer.live(connection, self._plan.transactions, self._plan.partitions)

    async def _take_over(self, second: Writer, connection: Connection) -> None:
        """Let another instance take the id in the middle of the transactions of the first."""
        await asyncio.sleep(self._random.random() * 3)
        await self._write(second, connection)

    def _end(self) -> None:
        world = self._world()
        with world.process(self._config) as process:
            process.run(self._act_last(process))

    async def _act_last(self, process: Process) -> None:
        await process.broker.start()
        connection = Connection(process.broker)
        for writer in self._writers:
            writer.begin_again()
            try:
                async with asyncio.timeout(SETTLED_S):
                    await writer.live(connection, 0, self._plan.partitions)
            except TimeoutError:
                self._stuck.append(f"hangs: {writer.name} cannot begin again")
        await asyncio.sleep(SETTLED_S)
        self.history.last = {number: await read_all(connection, number) for number in range(self._plan.partitions)}
        self.history.readings = [reader.reading() for reader in self._readers]


@functools.cache
def _config(*, is_flushed: bool) -> BrokerConfig:
    return BrokerConfig(
        node_id=1,
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=DIRECTORIES,
        transaction_state_log_num_partitions=2,
        log_initial_task_delay_ms=1_000,
        log_flush_offset_checkpoint_interval_ms=5_000,
        log_flush_scheduler_interval_ms=2_000,
        **({"log_flush_interval_messages": 1} if is_flushed else {}),
    )
