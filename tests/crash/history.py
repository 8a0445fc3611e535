"""A broker's life, drawn from a seed, in which the machine may stop after every operation of a disk or of the store.

A history consists of legs. In a leg the broker starts, does its actions, and is stopped, is killed or loses its power. At each
operation, or at a share of them, the disk and the store are copied, with the promises made by then. After the leg, a broker is
started on each copy, once as after a kill and twice as after a loss of power, and must keep the promises. The next leg begins on
a copy.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from pybroker.broker.joining import StartError
from pybroker.config.broker import BrokerConfig
from pybroker.log.cleaner import head
from pybroker.model import TopicId, TopicPartition
from testing.simulation.broker import START_MS, Process, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.faults import CHANGING, Fault
from testing.simulation.store import StoreContents
from tests.crash.actions import Actions
from tests.crash.check import BrokenPromiseError, check, check_log, lost_ranges, require
from tests.crash.model import Model, PartitionModel, Promises, TopicModel, TopicState

DIRECTORIES = ("/a", "/b")
head.FREED_BYTES_MIN = 1  # the segments of the histories have some hundred bytes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How histories are drawn. `share` of the operations are tried as the last one; `fault` is an error number, or None."""

    legs: int = 3
    actions: int = 14
    share: float = 0.1
    interleaving: float = 0.05
    kinds: frozenset[str] | None = None
    """The actions that are drawn; None: all."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """How often, where it is not as usual."""
    names: tuple[str, ...] = ("x", "y", "z")
    fault: int | None = None
    fault_kinds: frozenset[str] = CHANGING | {"open"}
    fault_path: str = "*"
    fault_skip_max: int = 150
    is_away: bool = True
    """Whether directories are away for a while."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of all topics, which replace those that are drawn."""
    checkpoint_interval_ms: int = 5_000


class Point(NamedTuple):
    """The state when the machine stops before `operation`."""

    number: int
    operation: str
    disk: SimulatedDisk
    contents: StoreContents
    promises: Promises
    now_ms: int


class Crash(NamedTuple):
    """How the machine stopped: `seed` None is a kill, -1 a loss of all that was not synced, another a loss of some of it."""

    seed: int | None

    def apply(self, disk: SimulatedDisk) -> None:
        if self.seed is None:
            disk.kill()
        else:
            disk.crash(None if self.seed < 0 else Random(self.seed))

    def __str__(self) -> str:
        return "a kill" if self.seed is None else f"a loss of power ({self.seed})"


class FailedHistoryError(AssertionError):
    """A history in which a promise was broken; the text is what to look at."""


class History:
    """A history of a seed. `run` raises FailedHistoryError; `checked` counts the starts that were tried."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.seed = seed
        self.plan = plan
        self.random = Random(seed)
        self.checked = 0
        self.notes: list[str] = []  # what was done
        self._model = Model()
        self._disk: SimulatedDisk | None = None
        self._contents: StoreContents | None = None
        self._now_ms = START_MS
        self._away: tuple[str, ...] = ()
        self._offline: frozenset[tuple[TopicId, int]] = frozenset()
        self._places: dict[tuple[TopicId, int], str] = {}  # where each partition was seen last
        self._points: list[Point] = []

    # --- a leg ---

    def run(self) -> None:
        logging.disable(logging.CRITICAL)
        try:
            for leg in range(self.plan.legs):
                self._leg(leg)
        finally:
            logging.disable(logging.NOTSET)

    def _world(self, disk: SimulatedDisk | None, contents: StoreContents | None, now_ms: int, interleaving: float) -> World:
        return World(seed=self.random.getrandbits(32), disk=disk, contents=contents, now_ms=now_ms, interleaving=interleaving)

    def _leg(self, leg: int) -> None:
        world = self._world(self._disk, self._contents, self._now_ms, self.plan.interleaving)
        if leg == 0:
            for path in DIRECTORIES:
                world.disk.make_directory(path)
            world.disk.sync_directory("/")
        self._points = []
        fault = None
        if self.plan.fault is not None:
            skip = self.random.randrange(self.plan.fault_skip_max)
            fault = Fault(self.plan.fault, kinds=self.plan.fault_kinds, path=self.plan.fault_path, skip=skip)
            world.disk.faults.append(fault)
        self.notes.append(f"--- leg {leg}: start{f', away: {self._away}' if self._away else ''}")
        with world.process(_config(self.plan.checkpoint_interval_ms)) as process:
            actions = Actions(self._model, process, self.random, self.plan, self.notes, fault, self._away)
            self._watch(world, actions)
            try:
                process.run(actions.live())
            except BrokenPromiseError as error:
                raise self._failed(str(error), None, None, world.disk) from error
            except StartError as error:
                # Without descriptors a broker may report it and not start; the next one does.
                is_short = fault is not None and fault.hits and fault.error == errno.EMFILE
                if not is_short:
                    raise self._failed(f"the broker does not start: {error}", None, None, world.disk) from error
            self._note(world, actions, "the end")
        world.disk.faults.clear()
        self._check_points(leg)
        # After a failed fsync what memory shows is not on the disk, and no later fsync reports it: the machine starts again too.
        self._choose_next(leg, has_lost_pages=fault is not None and any(hit.startswith("sync ") for hit in fault.hits))

    def _watch(self, world: World, actions: Actions) -> None:
        count = itertools.count()
        chance = Random(self.seed)

        def on_operation(kind: str, path: str) -> None:
            if (kind in CHANGING or kind.startswith("commit")) and chance.random() < self.plan.share:
                self._note(world, actions, f"operation {next(count)}: {kind} {path}")

        world.disk.on_operation = world.contents.on_operation = on_operation

    def _note(self, world: World, actions: Actions, operation: str) -> None:
        promises = actions.promises()._replace(away=self._away, offline=self._offline)
        number = len(self.notes)
        self._points.append(Point(number, operation, world.disk.fork(), world.contents.fork(), promises, world.clock.time_ms()))

    # --- after it ---

    def _crashes(self) -> Iterator[Crash]:
        yield Crash(None)
        yield Crash(-1)
        yield Crash(self.random.getrandbits(30))

    def _check_points(self, leg: int) -> None:
        for point in self._points:
            for crash in self._crashes():
                self._start_after(point, crash)

    def _start_after(self, point: Point, crash: Crash) -> tuple[Model, dict[tuple[TopicId, int], str]]:
        """Start a broker on a copy of what was there, and have it checked. Returns what is there now."""
        self.checked += 1
        disk = point.disk.fork()
        crash.apply(disk)
        world = World(seed=1, disk=disk, contents=point.contents.fork(), now_ms=point.now_ms)
        has_lost_power = crash.seed is not None
        with world.process(_config(self.plan.checkpoint_interval_ms)) as process:
            try:
                process.run(process.broker.start())
                model, places = _found(process, point.promises, has_lost_power=has_lost_power)
                process.run(check(process.broker, point.promises, has_lost_power=has_lost_power))
            except (BrokenPromiseError, StartError) as error:
                what = f"the broker does not start: {error}" if isinstance(error, StartError) else str(error)
                raise self._failed(what, point, crash, point.disk) from error
        return model, places

    def _choose_next(self, leg: int, *, has_lost_pages: bool) -> None:
        """Choose where the next leg begins: at the end, or at some operation of this one."""
        point = self.random.choice([self._points[-1], self.random.choice(self._points)])
        crash = self.random.choice(list(self._crashes())[1 if has_lost_pages else 0 :])
        self._model, places = self._start_after(point, crash)
        self._places |= places
        self.notes = self.notes[: point.number]
        self.notes.append(f"=== {crash} before {point.operation}")
        self._disk, self._contents = point.disk, point.contents
        crash.apply(self._disk)
        self._now_ms = point.now_ms + self.random.choice((0, 1_000, 90_000))
        for path in self._away:
            self._disk.attach(path)
        self._away, self._offline = (), frozenset()
        if self.plan.is_away and self.random.random() < 0.35 and leg + 1 < self.plan.legs:
            path = self.random.choice(DIRECTORIES)
            if _is_known(self._disk, self._contents, path):
                self._disk.detach(path)
                self._away = (path,)
                self._offline = frozenset(where for where, place in self._places.items() if place == path)

    def _failed(self, what: str, point: Point | None, crash: Crash | None, disk: SimulatedDisk) -> FailedHistoryError:
        notes = self.notes if point is None else self.notes[: point.number]
        lines = [f"seed {self.seed}: {what}", "What was done:", *(f"    {one}" for one in notes)]
        if point is not None:
            lines.append(f"then {crash} before {point.operation}")
        lines += ["The last operations:", *(f"    {one}" for one in list(disk.operations)[-25:])]
        lines += ["Not synced by then:", *(f"    {one}" for one in disk.unsynced()[-25:])]
        return FailedHistoryError("\n".join(lines))


def _is_known(disk: SimulatedDisk, contents: StoreContents, path: str) -> bool:
    """Return whether the store has the directory's id: a directory that is away before it was ever used is not missed."""
    try:
        lines = disk.read_file(f"{path}/meta.properties").decode().splitlines()
    except FileNotFoundError:
        return False
    ids = [line.partition("=")[2].encode() for line in lines if line.startswith("directory.id=")]
    return any(one in entry.value for one in ids for entry in contents.entries.values())


@functools.cache
def _config(checkpoint_interval_ms: int) -> BrokerConfig:
    return BrokerConfig(
        node_id=1,
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=DIRECTORIES,
        log_flush_offset_checkpoint_interval_ms=checkpoint_interval_ms,
        log_flush_start_offset_checkpoint_interval_ms=5_000,
        replica_high_watermark_checkpoint_interval_ms=5_000,
        log_retention_check_interval_ms=4_000,
        log_initial_task_delay_ms=1_000,
        log_flush_scheduler_interval_ms=2_000,
        log_cleaner_backoff_ms=1_500,
    )


def _found(process: Process, promises: Promises, *, has_lost_power: bool) -> tuple[Model, dict[tuple[TopicId, int], str]]:
    """Return the model of what the broker has after its start, and the directory of each partition."""
    broker, model = process.broker, Model()
    places: dict[tuple[TopicId, int], str] = {}
    known = set()
    for topic in promises.topics:
        known.add(topic.topic_id)
        is_there = topic.topic_id in broker.controller.image.topics_by_id
        state = TopicState.THERE if is_there else TopicState.GONE
        made = model.topics[topic.topic_id] = TopicModel(topic.name, topic.topic_id, state, topic.settings)
        for promise in topic.promises:
            tp = promise.topic_partition
            partition = made.partitions[tp.partition] = PartitionModel(tp)
            partition.start_min, partition.start_max = promise.start_min, promise.start_max
            partition.is_compacted, partition.leader_epoch = promise.is_compacted, promise.leader_epoch
            partition.lost, partition.end = promise.lost, promise.end
            partition.durable_end, partition.acked_end = promise.durable_end, promise.acked_end
            partition.batches, partition.in_flight = promise.batches[: promise.count], promise.in_flight
            partition.visible_end = promise.visible_end
            log = broker.log_manager.get(tp)
            if is_there and log is not None and log.topic_id == topic.topic_id and not log.log_directory.is_offline:
                places[topic.topic_id, tp.partition] = log.log_directory.path
                partition.batches = check_log(log, promise, has_lost_power=has_lost_power)
                partition.lost = lost_ranges(log, promise)
                partition.end = partition.acked_end = partition.visible_end = log.log_end_offset
                partition.durable_end = log.log_end_offset if has_lost_power else promise.durable_end
                partition.in_flight = ()
                found = broker.replica_manager.partitions.get(tp)
                if found is not None:
                    partition.leader_epoch = found.leader_epoch
            elif is_there and (topic.topic_id, tp.partition) not in promises.offline:
                # Its name was lost while a directory is away: it is made again, empty, when that is back.
                partition.batches, partition.in_flight = [], ()
                partition.end = partition.acked_end = partition.durable_end = partition.visible_end = 0
    for image in broker.controller.image.topics.values():
        if image.topic_id not in known:
            require(image.name in promises.unnamed, f"topic {image.name} was never made")
            made = model.topics[image.topic_id] = TopicModel(image.name, image.topic_id, TopicState.THERE, dict(image.configs))
            for number in range(len(image.partitions)):
                partition = made.partitions[number] = PartitionModel(TopicPartition(image.name, number))
                partition.is_compacted = "compact" in image.configs["cleanup.policy"]
    return model, places
