"""Long work of the broker takes slices, gives way to requests, and always progresses."""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import pairwise

import pytest

from pybroker.sharing.background import PAUSES_PER_SLICE, SLICE_NS, Background
from pybroker.sharing.work import InThread, Work, in_thread

STEP_NS = SLICE_NS // 4
PAUSE_S = PAUSES_PER_SLICE * SLICE_NS / 1e9


class Timer:
    """A timer of the loop."""

    def cancel(self) -> None:
        """Do nothing: a background that was stopped does nothing when the timer is due."""


class Loop:
    """A loop whose rounds take as long as a test wants: in each round it serves requests, then calls the timer that is due."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.bugs: list[str] = []
        self.slices: list[int] = []
        self.background = Background(lambda: self.bugs.append("bug"), self.later, lambda: self.now_ns)

    def later(self, delay_s: float, work: Callable[[], None]) -> Timer:
        self.timers.append((self.now_ns + delay_s * 1e9, work))
        return Timer()

    def round(self, requests_ns: int = 0) -> None:
        """Serve requests for some time, and call the timers that are due."""
        self.now_ns += requests_ns
        due = [work for at, work in self.timers if at <= self.now_ns]
        self.timers = [(at, work) for at, work in self.timers if at > self.now_ns]
        began_ns = self.now_ns
        for work in due:
            work()
        self.slices.append(self.now_ns - began_ns)

    def steps(self, count: int, ran: list[str], name: str = "") -> Work[None]:
        for _ in range(count):
            self.now_ns += STEP_NS
            ran.append(name)
            yield None


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_slice_is_bounded_and_a_pause_follows(loop: Loop) -> None:
    ran: list[str] = []
    loop.background.run("retention", loop.steps(40, ran))
    assert ran == [], "the caller has its turn first"
    for _ in range(200):
        loop.round(1_000_000)
    assert len(ran) == 40
    busy = [number for number, took in enumerate(loop.slices) if took]
    assert max(loop.slices) <= SLICE_NS
    assert min(after - before for before, after in pairwise(busy)) >= PAUSE_S * 1000
    assert loop.timers == [], "an idle background costs nothing"


def test_a_job_for_which_something_waits_needs_no_pause(loop: Loop) -> None:
    ran: list[str] = []
    loop.background.run("retention", loop.steps(8, ran))
    loop.round()
    loop.round()
    assert len(ran) == 4, "the second half is after the pause"
    loop.timers.clear()  # as when it is cancelled
    loop.background.hurry()
    loop.background.hurry()
    assert len(loop.timers) == 1, "the slice that is due stays as it is"
    loop.round()
    assert len(ran) == 8


@pytest.mark.parametrize("requests_ns", [100_000, 5_000_000, 20_000_000, 200_000_000])
def test_under_any_load_each_round_after_the_pause_has_a_slice(loop: Loop, requests_ns: int) -> None:
    ran: list[str] = []
    loop.background.run("checkpoint", loop.steps(400, ran))
    rounds_max = 100 * (int(PAUSE_S * 1e9) // requests_ns + 1) + 1
    for _ in range(rounds_max):
        loop.round(requests_ns)
    assert len(ran) == 400


def test_a_job_that_waits_for_many_threads_has_its_share_of_the_loop(loop: Loop) -> None:
    """No pause follows each of them."""
    reports: list[Callable[[OSError | None], None]] = []

    def waiting() -> Work[None]:
        for _ in range(20):
            loop.now_ns += STEP_NS // 10
            yield from in_thread(lambda _work, done: reports.append(done), lambda: None)

    loop.background.run("waits", waiting())
    loop.round(0)
    for number in range(20):
        loop.round(PAUSES_PER_SLICE * STEP_NS // 10)
        reports[number](None)
        loop.round(0)
    assert loop.timers == []


def test_jobs_take_their_slices_in_turn(loop: Loop) -> None:
    ran: list[str] = []
    loop.background.run("a", loop.steps(12, ran, "a"))
    loop.background.run("b", loop.steps(12, ran, "b"))
    for _ in range(10):
        loop.round(int(PAUSE_S * 1e9))
    assert "".join(ran) == "aaaabbbb" * 3


def test_a_job_that_waits_for_its_thread_holds_up_no_other(loop: Loop) -> None:
    ran: list[str] = []
    reports: list[Callable[[OSError | None], None]] = []

    def waiting() -> Work[None]:
        try:
            yield from in_thread(lambda _work, done: reports.append(done), lambda: None)
        except OSError as error:
            ran.append(f"failed {error.errno}")

    loop.background.run("waits", waiting())
    loop.background.run("other", loop.steps(3, ran, "other"))
    loop.round(int(PAUSE_S * 1e9))
    loop.round(int(PAUSE_S * 1e9))
    assert ran == ["other"] * 3
    reports[0](OSError(errno.EIO, "bad sector"))
    loop.round(int(PAUSE_S * 1e9))
    assert ran[3:] == [f"failed {errno.EIO}"]
    assert loop.bugs == []


def test_a_bug_of_one_job_costs_no_other(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Work[None]:
        yield None
        raise ValueError("a bug")

    ran: list[str] = []
    loop.background.run("broken", broken())
    loop.background.run("sound", loop.steps(3, ran, "sound"))
    for _ in range(3):
        loop.round(int(PAUSE_S * 1e9))
    assert ran == ["sound"] * 3
    assert loop.bugs == ["bug"]
    assert "broken" in caplog.text


def test_a_stop_ends_jobs_where_they_are(loop: Loop) -> None:
    ended: list[str] = []
    reports: list[Callable[[OSError | None], None]] = []

    def job(step: InThread | None) -> Work[None]:
        try:
            while True:
                loop.now_ns += STEP_NS
                yield step
        finally:
            ended.append("closed")

    loop.background.run("running", job(None))
    loop.background.run("waiting", job(InThread(lambda _work, done: reports.append(done), lambda: None)))
    for _ in range(3):
        loop.round(int(PAUSE_S * 1e9))
    loop.background.stop()
    assert ended == ["closed", "closed"]
    reports[0](None)
    loop.timers.clear()
    loop.background.run("late", job(None))
    assert loop.timers == []
