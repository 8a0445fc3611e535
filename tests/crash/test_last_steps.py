"""Adopting directories and giving them back, when each step in turn is the last: nothing is lost, and the next run completes."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence

import pytest

from pybroker.adoption import from_kafka, kafka_lockout, leaving, lost_metadata
from pybroker.broker.old_data import why_not_start
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.log.directories.directory import LogDirectory
from pybroker.metadata.entries import CLUSTER_ID_KEY
from pybroker.metadata.kraft.reading import METADATA_DIRECTORY, metadata_records
from pybroker.metadata.kraft.state import TOPIC_RESOURCE, KraftState, state_of
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.base import Store
from pybroker.model import BrokerId, Offset, TopicId
from pybroker.records.batch import Record
from pybroker.records.build import build_message_set
from testing.scenes.logs import append, batch
from testing.simulation.broker import START_MS, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.faults import CHANGING
from testing.simulation.store import StoreContents
from testing.simulation.subsets import crashed

DIRECTORIES = ("/a", "/b")
Machine = tuple[SimulatedDisk, StoreContents]
LOSSES_EVERY = int(os.environ.get("LOSSES_EVERY", "6"))
"""Every N-th loss of power at a step is tried; 1 tries all, in a minute. Every kill is tried."""
SEEDS = itertools.count(10)  # no two runs draw the same names
Ends = dict[str, tuple[int, int]]
"""Log start and log end offset by partition."""


@functools.cache
def config() -> BrokerConfig:
    return BrokerConfig(node_id=BrokerId(1), listeners="PLAINTEXT://127.0.0.1:0", log_dirs=DIRECTORIES)


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk(ManualClock(START_MS))
    for path in DIRECTORIES:
        disk.make_directory(path)
    disk.sync_all()
    return disk


def filled() -> Machine:
    """Return what a broker leaves that has stopped: topics with records, settings, and a moved log start offset."""
    world = World(seed=1, disk=new_disk())
    with world.process(config()) as process:
        broker = process.broker
        process.run(broker.start())
        wanted = [
            NewTopic(name="orders", partition_count=3, replication_factor=1, configs={"retention.ms": "-1"}),
            NewTopic(name="users", partition_count=1, replication_factor=1, configs={"cleanup.policy": "compact"}),
        ]
        process.run(broker.controller.create_topics(wanted))
        for log in broker.log_manager.all_logs():
            append(log, batch(3))
        process.run(broker.stop())
    return world.disk, world.contents


def started(machine: Machine) -> tuple[dict[str, TopicId], Ends]:
    """Start the broker on a copy. Returns the topics' ids, and the ends of the logs."""
    disk, contents = machine[0].fork(), machine[1].fork()
    world = World(seed=2, disk=disk, contents=contents)
    with world.process(config()) as process:
        process.run(process.broker.start())
        topics = {name: topic.topic_id for name, topic in process.broker.controller.image.topics.items()}
        logs = process.broker.log_manager.all_logs()
        ends = {str(log.topic_partition): (int(log.log_start_offset), int(log.log_end_offset)) for log in logs}
        process.run(process.broker.stop())
    return topics, ends


def leave(disk: SimulatedDisk, contents: StoreContents) -> None:
    store, clock = contents.open(), ManualClock(START_MS)
    with World(seed=next(SEEDS)).drawn_from_seed(), lost_metadata.locked(config(), disk) as directories:
        asyncio.run(leaving.leave(store, config(), directories, release="3.9", clock=clock))


def adopt(disk: SimulatedDisk, contents: StoreContents) -> None:
    async def run(store: Store) -> None:
        prepared = await from_kafka.prepare(store, config(), directories, {}, is_partial=False)
        await from_kafka.carry_out(store, config(), prepared)

    with World(seed=next(SEEDS)).drawn_from_seed(), lost_metadata.locked(config(), disk) as directories:
        asyncio.run(run(contents.open()))


def kraft(disk: SimulatedDisk) -> KraftState:
    return state_of(metadata_records(disk, f"/a/{METADATA_DIRECTORY}", was_clean=True))


def each_last_step(machine: Machine, work: Callable[[SimulatedDisk, StoreContents], None]) -> Iterator[tuple[str, Machine]]:
    """Yield what a kill and losses of power leave before each step of `work` that changes something."""
    disk, contents = machine[0].fork(), machine[1].fork()
    points: list[tuple[str, Machine]] = []

    def on_operation(kind: str, path: str) -> None:
        if kind in CHANGING or kind.startswith("commit"):
            points.append((f"{kind} {path}", (disk.fork(), contents.fork())))

    disk.on_operation = contents.on_operation = on_operation
    work(disk, contents)
    points.append(("the end", (disk.fork(), contents.fork())))
    for name, (left, entries) in points:
        killed = left.fork()
        killed.kill()
        yield f"a kill before {name}", (killed, entries.fork())
        for number, one in enumerate(crashed(left), start=len(name)):
            if number % LOSSES_EVERY == 0:
                yield f"loss of power {number} before {name}", (one, entries.fork())


def seen(state: KraftState) -> dict[str, tuple[TopicId, Sequence[int], dict[str, str]]]:
    return {
        topic.name: (
            topic.topic_id,
            [part.leader_epoch for _, part in sorted(topic.partitions.items())],
            state.configs.get((TOPIC_RESOURCE, topic.name), {}),
        )
        for topic in state.topics.values()
    }


@pytest.mark.parametrize("has_earlier_kafka", [False, True])
def test_giving_back_can_end_at_each_step(*, has_earlier_kafka: bool) -> None:
    machine = filled()
    if has_earlier_kafka:
        leave(*machine)
        adopt(*machine)
        topics, ends = restarted(machine)
    else:
        topics, ends = started(machine)
    assert len(ends) == 4
    disk, contents = machine[0].fork(), machine[1].fork()
    leave(disk, contents)
    wanted = seen(kraft(disk))
    assert {name: one[0] for name, one in wanted.items()} == topics
    states = set()
    for what, (left, entries) in each_last_step(machine, leave):
        is_ours = CLUSTER_ID_KEY in entries.entries
        states.add(is_ours)
        if is_ours:
            assert started((left, entries)) == (topics, ends), what
            leave(left, entries)
        assert seen(kraft(left)) == wanted, what
        assert CLUSTER_ID_KEY not in entries.entries
        kept = [entry.name for entry in left.list("/a") if entry.name.startswith(METADATA_DIRECTORY) and "-stray" in entry.name]
        assert len(kept) >= has_earlier_kafka, what
        adopt(left, entries)
        assert started((left, entries)) == (topics, ends), what
    assert states == {True, False}


def restarted(machine: Machine) -> tuple[dict[str, TopicId], Ends]:
    """Start the broker on the machine itself, and stop it."""
    world = World(seed=5, disk=machine[0], contents=machine[1])
    with world.process(config()) as process:
        process.run(process.broker.start())
        process.run(process.broker.stop())
    return started(machine)


def old_kafka() -> Machine:
    """Return the directories of a Kafka of the time of ZooKeeper that has stopped, with messages of formats 0 and 1."""
    disk = new_disk()
    for number, path in enumerate(DIRECTORIES):
        disk.write_file(f"{path}/meta.properties", b"version=0\nbroker.id=1\ncluster.id=theirs\n", sync=True)
        disk.write_file(f"{path}/.kafka_cleanshutdown", b"", sync=True)
        log = f"{path}/orders-{number}"
        disk.make_directory(log)
        for base in (0, 5)[: 2 - number]:
            magic = int(base > 0)
            records = [Record(Offset(base + n), 1000 if magic else -1, b"k", b"v%d" % n) for n in range(5)]
            disk.write_file(f"{log}/{base:020}.log", bytes(build_message_set(records, magic=magic)), sync=True)
            disk.write_file(f"{log}/{base:020}.index", b"positions of old", sync=True)
    disk.sync_all()
    return disk, StoreContents()


def test_adopting_can_end_at_each_step() -> None:
    machine = old_kafka()
    done = machine[0].fork(), machine[1].fork()
    adopt(*done)
    _, ends = started(done)
    assert ends == {"orders-0": (0, 10), "orders-1": (0, 5)}
    states = set()
    for what, (left, entries) in each_last_step(machine, adopt):
        is_ours = CLUSTER_ID_KEY in entries.entries
        states.add(is_ours)
        if not is_ours:
            reason = asyncio.run(why_not_start(entries.open(), config(), left))
            assert reason is not None, what
            adopt(left, entries)
        topics, found = started((left, entries))
        assert found == ends, what
        assert [*topics] == ["orders"]
    assert states == {True, False}


def test_locking_kafka_out_can_end_at_each_step() -> None:
    machine = filled()
    leave(*machine)
    done = machine[0].fork(), machine[1].fork()
    adopt(*done)
    ends = started(done)
    metadata = kraft(machine[0])
    open_after_commit = 0
    for what, (left, entries) in each_last_step(machine, adopt):
        is_open = any(kafka_lockout.is_open(LogDirectory(path, left)) for path in DIRECTORIES)
        is_ours = CLUSTER_ID_KEY in entries.entries
        assert is_open or is_ours, "the metadata lies where it was until the adoption is committed"
        open_after_commit += is_open and is_ours
        if is_open:
            adopt(left, entries)
        assert not any(kafka_lockout.is_open(LogDirectory(path, left)) for path in DIRECTORIES), what
        assert left.read_file(f"/a/{METADATA_DIRECTORY}") == kafka_lockout.TEXT, what
        (kept,) = [entry.path for entry in left.list("/a") if entry.name.startswith(f"{METADATA_DIRECTORY}.")]
        assert seen(state_of(metadata_records(left, kept, was_clean=True))) == seen(metadata), what
        assert started((left, entries)) == ends, what
    assert open_after_commit
