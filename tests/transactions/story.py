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
from typing import Any, Final

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.names import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from pybroker.metadata.new_topic import NewTopic
from testing.simulation.broker import START_MS, Process, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.store import StoreContents
from testing.transactions.checker import problems
from testing.transactions.history import History
from tests.transactions.connection import Connection
from tests.transactions.pipeline import SESSION_TIMEOUT_MS, Pipeline, committed_offset, watch_offsets
from tests.transactions.readers import Reader, read_all, watch
from tests.transactions.removals import delete, delete_and_make, make_again, note_markers
from tests.transactions.writer import REMOVED_TOPIC, TOPIC, Writer

COMPACTED: Final = {"cleanup.policy": "compact", "segment.bytes": "600"}
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
    is_pipeline: bool = False
    """Whether the writers are members of a group, and commit its offsets in their transactions."""
    is_compacted: bool = False
    """Whether compaction works on the data and the internal topics, which have small segments."""
    removes: bool = False
    """Whether a topic is deleted and made again in the middle of transactions."""


PLANS: Final = {
    "kills": Plan(),
    "power": Plan(loses_power=True),
    "often": Plan(loses_power=True, lives=8, operations=150, writers=4),
    "pipeline": Plan(is_pipeline=True, operations=1_200, transactions=12),
    "removals": Plan(removes=True, operations=700),
    "compaction": Plan(is_compacted=True, is_pipeline=True, operations=2_500, transactions=16),
    "everything": Plan(loses_power=True, is_pipeline=True, is_compacted=True, removes=True, lives=4, operations=2_500),
}


class Story:
    """The story of a seed. `run` returns the problems; `notes` has what happened to the broker."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self._seed, self._plan = seed, plan
        self._random = Random(seed)
        self.history = History()
        self.notes: list[str] = []
        self._stuck: list[str] = []
        self.history.is_compacted = plan.is_compacted
        self._config = _config(plan)
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
        kind = Pipeline if self._plan.is_pipeline else Writer
        name = f"writer {number}.{instance}"
        return kind(name, f"id-{number}", version, random, self.history, removed=self._plan.removes)

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
            configs = COMPACTED if self._plan.is_compacted else {}
            new = NewTopic(name=TOPIC, partition_count=self._plan.partitions, configs=configs)
            await process.broker.controller.create_topics([new])
            await process.broker.controller.create_missing_topics([TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC])
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
        others += self._also(connection, process)
        if self._random.random() < 0.5:
            number = self._random.randrange(self._plan.writers)
            second = self._new_writer(number, 100 + life)
            writing.append(asyncio.ensure_future(self._take_over(second, connection)))
            self._writers[number] = second
        _, waiting = await asyncio.wait(writing, timeout=LIFE_S)
        if not connection.is_closed:
            stop("the next operation" if waiting else "the end")
        await asyncio.gather(*writing, *others)

    def _also(self, connection: Connection, process: Process) -> list[asyncio.Task[None]]:
        """Begin what the plan has besides writers and readers of the data."""
        work = []
        if self._plan.is_pipeline:
            work.append(watch_offsets(connection, self._plan.partitions, self.history, self._random))
        if self._plan.removes:
            work.append(make_again(connection, process.broker.controller, self.history, self._random))
        return [asyncio.ensure_future(one) for one in work]

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
        if self._plan.removes:
            await self._random.choice((delete, delete_and_make))(process.broker.controller, self.history)
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
        if REMOVED_TOPIC in process.broker.controller.image.topics:
            await note_markers(connection, self.history)
        if self._plan.is_pipeline:
            for number in range(self._plan.partitions):
                code, offset = await committed_offset(connection, number, stable=True)
                self.history.last_offsets[number] = None if code else offset


@functools.cache
def _config(plan: Plan) -> BrokerConfig:
    options: dict[str, Any] = {"log_flush_interval_messages": 1} if plan.loses_power else {}
    if plan.is_compacted:
        options |= {
            "transaction_state_log_segment_bytes": 600,
            "offsets_topic_segment_bytes": 600,
            "log_cleaner_backoff_ms": 1_500,
            "log_cleaner_min_cleanable_ratio": 0.01,
            "log_cleaner_delete_retention_ms": 2_000,
        }
    return BrokerConfig(
        node_id=1,
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=DIRECTORIES,
        transaction_state_log_num_partitions=2,
        log_initial_task_delay_ms=1_000,
        log_flush_offset_checkpoint_interval_ms=5_000,
        log_flush_scheduler_interval_ms=2_000,
        offsets_topic_num_partitions=2,
        group_consumer_min_session_timeout_ms=SESSION_TIMEOUT_MS,
        group_consumer_session_timeout_ms=SESSION_TIMEOUT_MS,
        group_consumer_min_heartbeat_interval_ms=1_000,
        group_consumer_heartbeat_interval_ms=1_000,
        **options,
    )
