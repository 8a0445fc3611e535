"""Several loops share a clock, and each of them can be paused and ended."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from pybroker.clock import ManualClock
from testing.simulation.cluster.process import Process
from testing.simulation.cluster.scheduling import Scheduler
from testing.simulation.loop import NothingToDoError


class Scene:
    """Three processes, each of which notes the time at every tenth of a second."""

    def __init__(self, seed: int = 0) -> None:
        self.scheduler = Scheduler(ManualClock(), Random(seed))
        self.problems: list[str] = []
        self.processes = [Process(self.scheduler, node, self.problems) for node in (1, 2, 3)]
        self.noted: list[tuple[int, int]] = []
        for process in self.processes:
            process.loop.create_task(self._note(process.node))

    async def _note(self, node: int) -> None:
        while True:
            await asyncio.sleep(0.1)
            self.noted.append((self.scheduler.clock.monotonic_ms(), node))

    def nodes_at(self, now_ms: int) -> set[int]:
        return {node for when_ms, node in self.noted if when_ms == now_ms}

    def end(self) -> None:
        for process in self.processes:
            if not process.is_dead:
                process.end()


def test_every_loop_sees_the_same_time_and_the_seed_draws_the_order() -> None:
    orders = []
    for seed in (1, 2, 1):
        scene = Scene(seed)
        scene.scheduler.run_for(1_000)
        scene.end()
        assert all(scene.nodes_at(now_ms) == {1, 2, 3} for now_ms in range(100, 1_000, 100))
        orders.append(scene.noted)
    assert orders[0] == orders[2] != orders[1]


def test_a_paused_loop_gets_no_turns_and_continues_late() -> None:
    scene = Scene()
    scene.scheduler.run_for(250)
    scene.processes[0].loop.is_paused = True
    scene.scheduler.run_for(300)
    assert scene.nodes_at(300) == scene.nodes_at(500) == {2, 3}
    scene.processes[0].loop.is_paused = False
    scene.scheduler.run_for(10)
    assert 1 in scene.nodes_at(550)
    scene.end()


def test_a_process_that_ended_does_nothing_more() -> None:
    scene = Scene()
    scene.scheduler.run_for(250)
    ended = scene.processes[0]
    ended.end()
    ended.post(scene.noted.clear)
    scene.scheduler.run_for(300)
    assert scene.nodes_at(200) == {1, 2, 3}
    assert scene.nodes_at(300) == {2, 3}
    scene.end()


def test_an_exception_that_no_one_takes_is_a_problem() -> None:
    scene = Scene()
    scene.processes[0].post(lambda: 1 // 0)
    scene.scheduler.run_for(10)
    assert "ZeroDivisionError" in scene.problems[0]
    scene.end()


def test_a_loop_without_an_end_is_noticed() -> None:
    scene = Scene()

    def again() -> None:
        scene.processes[0].loop.call_soon(again)

    scene.processes[0].post(again)
    with pytest.raises(NothingToDoError):
        scene.scheduler.run_for(10)
    scene.end()
