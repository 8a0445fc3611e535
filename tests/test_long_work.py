"""Long work in threads: the order in which it begins, its end, and a shortage of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from unittest import mock

import pytest

from pybroker.long_work import LongWork

LONG, SHORT = 100, 1
SHORT_MAX = 10


class Scene:
    """Work that runs until it is let go, in the order in which it begins."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._gates: dict[str, threading.Event] = {}
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def work(self, name: str) -> object:
        gate = self._gates[name] = threading.Event()

        def run() -> str:
            self._loop.call_soon_threadsafe(self._begin, name)
            assert gate.wait(10)
            return name

        return run

    def _begin(self, name: str) -> None:
        self.begun.append(name)
        self._news.set()

    def let_go(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()

    async def has_begun(self, *names: str) -> None:
        async with asyncio.timeout(10):
            while not set(names) <= set(self.begun):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    scene.let_go(*scene._gates)


def given(threads: LongWork, scene: Scene, name: str, size: int = LONG) -> asyncio.Future[object]:
    return threads.run(scene.work(name), size)  # type: ignore[arg-type]


async def test_short_work_does_not_wait_for_long_work(scene: Scene) -> None:
    threads = LongWork("test", 1, short_max=SHORT_MAX)
    long = [given(threads, scene, f"long {number}") for number in range(3)]
    short = [given(threads, scene, "short", SHORT + 1), given(threads, scene, "shorter", SHORT)]
    await scene.has_begun("long 0", "short")
    assert scene.begun == ["long 0", "short"]
    assert (threads.running, threads.waiting) == (2, 3)
    scene.let_go("short")
    assert await short[0] == "short"
    await scene.has_begun("shorter")
    scene.let_go("shorter", "long 0", "long 1", "long 2")
    assert await asyncio.gather(*long) == ["long 0", "long 1", "long 2"]
    assert scene.begun[3:] == ["long 1", "long 2"]


async def test_the_smallest_of_the_short_work_is_next_and_the_oldest_of_all_work(scene: Scene) -> None:
    threads = LongWork("test", 1, short_max=SHORT_MAX)
    for name, size in [("long", LONG), ("first", 5), ("old", LONG), ("middle", 4), ("small", 2)]:
        given(threads, scene, name, size)
    await scene.has_begun("long", "first")
    scene.let_go("first")
    await scene.has_begun("small")
    scene.let_go("long")
    await scene.has_begun("old")
    assert scene.begun == ["long", "first", "small", "old"]
    scene.let_go("small", "old", "middle")
    await scene.has_begun("middle")


async def test_work_that_was_given_up_before_its_turn_never_begins(scene: Scene) -> None:
    threads = LongWork("test", 1)
    first, second, third = (given(threads, scene, name) for name in ("first", "second", "third"))
    second.cancel()
    scene.let_go("first", "second", "third")
    await asyncio.gather(first, third)
    assert scene.begun == ["first", "third"]


async def test_an_error_goes_to_the_caller() -> None:
    threads = LongWork("test", 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: 1) == 1


async def test_without_a_thread_work_fails_and_the_next_work_is_tried_again() -> None:
    threads = LongWork("test", 1)
    none = mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread"))
    with none, pytest.raises(RuntimeError, match="thread"):
        await threads.run(lambda: 1)
    assert await threads.run(lambda: 1) == 1


async def test_the_end_drops_what_waits_and_waits_for_what_runs(scene: Scene) -> None:
    threads = LongWork("test", 1)
    running, waiting = given(threads, scene, "running"), given(threads, scene, "waiting")
    await scene.has_begun("running")
    scene.let_go("running")
    threads.close()
    assert await running == "running"
    assert waiting.cancelled()
    assert scene.begun == ["running"]
