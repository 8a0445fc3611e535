"""The records that a loss of power takes where flush settings are missing: the rows of the table in docs/design/transactions.md.

Everything that was not synced is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from random import Random
from typing import Any, Final

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.names import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from testing.simulation.broker import Process, World
from testing.transactions.history import Claim, History
from testing.transactions.isolation import hand_out
from tests.transactions.connection import Connection
from tests.transactions.pipeline import Pipeline, committed_offset
from tests.transactions.readers import fetch
from tests.transactions.writer import TOPIC, Writer

ALL: Final = frozenset({TOPIC, OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})
CLAIM: Final = Claim(0, 0, 5)
CONFIG: Final = BrokerConfig(
    node_id=1,
    listeners="PLAINTEXT://127.0.0.1:0",
    log_dirs=("/a",),
    log_flush_scheduler_interval_ms=1 << 40,
    log_flush_offset_checkpoint_interval_ms=1 << 30,
)


def new_writer() -> Pipeline:
    """Return a writer that is no member of its group, which is empty."""
    writer = Pipeline("", "id", 1, Random(1), History())
    writer._member_epoch = -1
    return writer


class Machine:
    """A machine that loses its power. `flushed` are the topics with `flush.messages=1`."""

    def __init__(self, flushed: Collection[str]) -> None:
        self._flushed = flushed
        self._world = World(seed=1)
        self._world.disk.make_directory("/a")
        self._world.disk.sync_directory("/")
        self.writer = new_writer()

    def run(self, act: Callable[[Process, Connection], Awaitable[Any]]) -> Any:
        """Start the broker, let something happen, and cut the power."""

        async def work(process: Process) -> Any:
            await process.broker.start()
            controller = process.broker.controller
            missing = [name for name in (TOPIC, OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC) if name not in controller.image.topics]
            configs = {name: {"flush.messages": "1"} if name in self._flushed else {} for name in missing}
            count = {TOPIC: 2}
            await controller.create_topics(
                [NewTopic(name=name, partition_count=count.get(name, 1), configs=configs[name]) for name in missing]
            )
            found = await act(process, Connection(process.broker))
            disk, contents, now_ms = self._world.disk.fork(), self._world.contents.fork(), self._world.clock.time_ms()
            disk.crash()
            self._next = World(seed=2, disk=disk, contents=contents, now_ms=now_ms)
            return found

        with self._world.process(CONFIG) as process:
            found = process.run(work(process))
        self._world = self._next
        return found


async def write(writer: Writer, connection: Connection, value: bytes) -> None:
    """Begin a transaction with a record in partition 0."""
    writer._written = writer._history.begin("writer", 1)
    writer._written.claim = CLAIM
    await writer._adding([0])(connection)
    await writer._send(connection, TOPIC, 0, 0, [value])


async def sync(process: Process, topic: str) -> None:
    """Make what partition 0 of the topic has now durable, as the system may do at any time."""
    process.broker.replica_manager.partition_or_raise(TopicPartition(topic, 0)).log.flush()
    await asyncio.sleep(1)


async def records(connection: Connection) -> tuple[list[bytes], bool]:
    """Return the committed values of partition 0, and whether a transaction is open there after a minute."""
    await asyncio.sleep(60)
    data = await fetch(connection, 0, 0, is_committed=True)
    out = hand_out(bytes(data.records or b""), data.aborted_transactions or (), 0)
    return [value for _, value in out.records], data.last_stable_offset < data.high_watermark


def ended(machine: Machine, *, is_commit: bool, synced: str | None = None) -> None:
    """End a transaction, after what a topic has is durable, and cut the power."""

    async def act(process: Process, connection: Connection) -> None:
        await machine.writer._init(connection)
        await write(machine.writer, connection, b"value")
        if synced is not None:
            await sync(process, synced)
        await machine.writer._ending(is_commit=is_commit)(connection)
        await asyncio.sleep(1)

    machine.run(act)


def read(machine: Machine) -> tuple[list[bytes], bool]:
    found: tuple[list[bytes], bool] = machine.run(lambda _, connection: records(connection))
    return found


@pytest.mark.parametrize("is_commit", [True, False])
def test_with_all_flush_settings_a_transaction_is_exact(is_commit: bool) -> None:
    machine = Machine(ALL)
    ended(machine, is_commit=is_commit)
    assert read(machine) == ([b"value"] if is_commit else [], False)


def test_without_that_of_the_data_a_committed_transaction_may_lose_its_records() -> None:
    machine = Machine(ALL - {TOPIC})
    ended(machine, is_commit=True)
    assert read(machine) == ([], False)


@pytest.mark.parametrize("is_commit", [True, False])
def test_without_that_of_the_data_a_marker_may_be_lost_alone(is_commit: bool) -> None:
    machine = Machine(ALL - {TOPIC})
    ended(machine, is_commit=is_commit, synced=TOPIC)
    assert read(machine) == ([], True)

    async def next_transaction(_process: Process, connection: Connection) -> Any:
        await machine.writer._init(connection)
        await write(machine.writer, connection, b"next")
        await machine.writer._ending(is_commit=True)(connection)
        return await records(connection)

    # The next end of the same producer ends it, too.
    assert machine.run(next_transaction) == ([b"value", b"next"], False)


def test_without_that_of_the_offsets_a_marker_may_be_lost_alone() -> None:
    machine = Machine(ALL - {OFFSETS_TOPIC})

    async def act(process: Process, connection: Connection) -> None:
        writer = machine.writer
        await writer._init(connection)
        await write(writer, connection, b"value")
        await writer._open_offsets(connection)
        await writer._commit(CLAIM)(connection)
        await sync(process, OFFSETS_TOPIC)
        await writer._ending(is_commit=True)(connection)
        await asyncio.sleep(1)
        assert await committed_offset(connection, 0, stable=True) == (0, CLAIM.end)

    machine.run(act)

    async def later(_process: Process, connection: Connection) -> Any:
        await asyncio.sleep(60)
        return await committed_offset(connection, 0, stable=True)

    code, _ = machine.run(later)
    assert code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_without_that_of_the_state_a_decision_may_be_lost_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(ALL - {TRANSACTION_STATE_TOPIC})
    ended(machine, is_commit=True, synced=TRANSACTION_STATE_TOPIC)
    assert read(machine) == ([b"value"], False)
    assert "has lost the decision that ended it: t-0 had the marker" in caplog.text


def test_without_that_of_the_state_a_transaction_may_be_unknown() -> None:
    machine = Machine(ALL - {TRANSACTION_STATE_TOPIC})

    async def act(_process: Process, connection: Connection) -> None:
        await machine.writer._init(connection)
        await write(machine.writer, connection, b"value")

    machine.run(act)
    assert read(machine) == ([], True)


def test_without_that_of_the_state_a_producer_that_was_fenced_may_be_valid_again() -> None:
    machine = Machine(ALL - {TRANSACTION_STATE_TOPIC})

    async def act(process: Process, connection: Connection) -> None:
        await machine.writer._init(connection)
        await sync(process, TRANSACTION_STATE_TOPIC)
        await new_writer()._init(connection)

    machine.run(act)
    machine.run(lambda _, connection: write(machine.writer, connection, b"of the first"))
