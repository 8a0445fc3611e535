"""The stores of several processes on one member keep the contract of a store, whatever is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from random import Random

import pytest

from pybroker.clock import ManualClock
from pybroker.metadata.store.base import ABSENT, Change, OutcomeUnknownError, Session, Store, StoreError
from testing.simulation.cluster.mutants import planted
from testing.simulation.cluster.network import Network
from testing.simulation.cluster.process import Process
from testing.simulation.cluster.scheduling import Scheduler
from testing.simulation.cluster.store import ETCD, SharedStore

COUNTER = "counter"


class Worker:
    """A process that adds to a counter by compare-and-swap. `done` counts what certainly happened, `unknown` what may have."""

    def __init__(self, scene: Scene, node: int) -> None:
        self.process = Process(scene.scheduler, node, scene.problems)
        self.store: Store = scene.shared.open(self.process)
        self.seen: list[Change] = []
        self.store.watch("", self._see)
        self.done = self.unknown = 0
        self.session: Session | None = None

    def _see(self, changes: Sequence[Change]) -> None:
        assert not self.seen or changes[0].revision > self.seen[-1].revision, "revisions come in order, and once"
        self.seen += changes

    async def work(self, count: int) -> None:
        for _ in range(count):
            try:
                entry = await self.store.get(COUNTER)
                value, revision = (0, ABSENT) if entry is None else (int(entry.value), entry.revision)
                outcome = await self.store.commit(puts={COUNTER: b"%d" % (value + 1)}, compare={COUNTER: revision})
            except OutcomeUnknownError:
                self.unknown += 1
            except StoreError:
                continue
            else:
                if isinstance(outcome, int):
                    self.done += 1
                    assert Change(COUNTER, b"%d" % (value + 1), outcome) in self.seen, "the own watch has seen it"

    async def live(self) -> None:
        self.session = await self.store.open_session(ttl_ms=3_000, renew_ms=500)
        await self.store.commit(puts={f"live/{self.process.node}": b""}, session=self.session)


class Scene:
    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(ManualClock(), Random(seed))
        self.network = Network(self.scheduler, Random(seed))
        self.problems: list[str] = []
        self.shared = SharedStore(self.scheduler, self.network, self.problems)
        self.workers = [Worker(self, node) for node in (1, 2, 3)]

    def run(self, *tasks: asyncio.Task[None]) -> None:
        assert self.scheduler.run_until(lambda: all(task.done() for task in tasks), within_ms=600_000)
        for task in tasks:
            task.result()

    def end(self) -> None:
        for process in (*(worker.process for worker in self.workers), self.shared.process):
            if not process.is_dead:
                process.end()
        assert not self.problems


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("pybroker.metadata.store").setLevel(logging.CRITICAL)


def counted(seed: int, lost_share: float) -> tuple[int, int, int]:
    """Return what the counter is in the end, how often it certainly grew, and how often it may have grown besides."""
    scene = Scene(seed)
    scene.shared.lost_share = lost_share
    scene.run(*(worker.process.loop.create_task(worker.work(15)) for worker in scene.workers))
    scene.shared.lost_share = 0.0
    scene.scheduler.run_for(10_000)
    entry, _ = scene.shared.etcd.contents()["simulated/entries/counter"]
    for worker in scene.workers:
        assert [int(change.value or b"") for change in worker.seen][-1] == int(entry)
    scene.end()
    return int(entry), sum(worker.done for worker in scene.workers), sum(worker.unknown for worker in scene.workers)


@pytest.mark.parametrize("lost_share", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_no_commit_is_lost_or_done_twice(seed: int, lost_share: float) -> None:
    value, done, unknown = counted(seed, lost_share)
    assert done <= value <= done + unknown
    assert lost_share or not unknown


def test_a_commit_that_is_repeated_blindly_is_found() -> None:
    with planted("repeats commits blindly"):
        found = [counted(seed, 0.1) for seed in range(5)]
    assert any(value > done + unknown for value, done, unknown in found)


@pytest.mark.parametrize("how", ["killed", "paused", "cut off"])
def test_a_session_ends_for_its_owner_before_the_others_see_it(how: str) -> None:
    scene = Scene(1)
    scene.run(*(worker.process.loop.create_task(worker.live()) for worker in scene.workers))
    owner, other = scene.workers[0], scene.workers[1]
    scene.scheduler.run_for(5_000)
    assert len(other.seen) == 3
    if how == "killed":
        owner.process.end()
    elif how == "paused":
        owner.process.loop.is_paused = True
    else:
        scene.network.cut |= {(1, ETCD), (ETCD, 1)}
    scene.scheduler.run_until(lambda: len(other.seen) > 3, within_ms=10_000)
    assert other.seen[3].key == "live/1"
    assert owner.session is not None
    if how != "killed":
        owner.process.loop.is_paused = False
        valid_until_s = owner.session.valid_until_s
        assert valid_until_s <= owner.process.loop.time()
        scene.network.heal()
        scene.scheduler.run_for(2_000)
        assert owner.session.ended.is_set()
        assert owner.seen[-1] == other.seen[-1]
    scene.end()
