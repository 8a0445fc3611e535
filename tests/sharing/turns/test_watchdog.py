"""A turn is judged by the time that it held the loop, and named by what ran in it, however it was entered."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.sharing.turns import exceptions
from pybroker.sharing.turns.jobs import job, note
from pybroker.sharing.turns.run_delay import RunDelay
from pybroker.sharing.turns.watchdog import LIMIT_NS, SWITCH, LongTurn, Watchdog, current, fail_ns, name_of
from testing.places import ROOT
from testing.turns import Turns, run_watched, watched

pytestmark = pytest.mark.judges_time

DOCUMENT = ROOT / "docs" / "design" / "latency.md"
HELD_MS = 30
LIMIT_MS = 20

on_both_loops = pytest.mark.parametrize("with_uvloop", [True, False], ids=["uvloop", "asyncio"])


def hold(milliseconds: float = HELD_MS) -> None:
    """Use the CPU for this long, by this thread's account of it."""
    end_ns = time.thread_time_ns() + int(milliseconds * 1e6)
    while time.thread_time_ns() < end_ns:
        pass


def names(turns: Turns) -> list[str]:
    return [turn.what for turn in turns.long]


def test_a_long_turn_is_counted_and_named() -> None:
    with watched(LIMIT_MS) as turns:
        turns.run(hold)
        turns.run(hold, 0)
    (turn,) = turns.long
    assert turn.what == "hold"
    assert turn.held_ns >= HELD_MS * 1_000_000
    assert turns.watchdog.long_turns == {"hold": 1}
    assert turns.longest == turn
    assert turns.count >= 2


def test_a_slow_machine_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testing.turns.slowness", lambda: 3.0)
    with watched(LIMIT_MS) as turns:
        turns.run(hold)
        turns.run(hold, 10 * HELD_MS)
    assert len(turns.long) == 2
    assert len(turns.long_texts()) == 1


def test_time_blocked_counts_as_time_held() -> None:
    with watched(LIMIT_MS) as turns:
        turns.run(time.sleep, HELD_MS / 1000)
    assert names(turns) == ["sleep"]


class Account(RunDelay):
    """An account of the time waited that a test writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.total_ns = 0
        self.wait(0)
        self.descriptor = os.open(path, os.O_RDONLY)

    def wait(self, more_ns: int) -> None:
        self.total_ns += more_ns
        self._path.write_text(f"123 {self.total_ns} 7\n")


@pytest.mark.parametrize(("held_ms", "is_long"), [(LIMIT_MS - 15, False), (LIMIT_MS + 5, True)])
def test_time_waiting_for_a_core_is_counted_apart(held_ms: int, is_long: bool, tmp_path: Path) -> None:
    long: list[LongTurn] = []
    watchdog, account = Watchdog(LIMIT_MS * 1_000_000, long.append), Account(tmp_path / "schedstat")
    account.wait(1_000_000_000)  # before
    watchdog.watch.bind(account)
    watchdog.watch.begin()
    time.sleep(0.05)
    waited_ns = time.monotonic_ns() - watchdog.watch.begun_ns - held_ms * 1_000_000
    account.wait(waited_ns)
    watchdog.watch.end("work")
    assert [(turn.what, turn.waited_ns, turn.length_ns - turn.held_ns) for turn in long] == (
        [("work", waited_ns, waited_ns)] if is_long else []
    )
    account.close()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel keeps no account of threads")
def test_the_kernels_account_of_a_thread_grows_while_the_thread_waits_for_a_core() -> None:
    cores, delay = os.sched_getaffinity(0), RunDelay()
    before_ns, (one, *_) = delay.waited_ns(), sorted(cores)
    other = threading.Thread(target=hold, args=(100,))
    os.sched_setaffinity(0, {one})  # of this thread; the other inherits it
    try:
        other.start()
        sums = sum(hash(bytes(1 << 24)) for _ in range(20))
        other.join()
    finally:
        os.sched_setaffinity(0, cores)
    assert delay.is_known, sums
    assert delay.waited_ns() > before_ns
    delay.close()
    assert delay.waited_ns() == 0


def test_a_turn_inside_a_turn_is_part_of_it() -> None:
    with watched(LIMIT_MS) as turns:
        turns.run(lambda: [turns.run(hold, 2 * LIMIT_MS / 3) for _ in range(2)])
    (name,) = names(turns)
    assert "lambda" in name
    assert not turns.watchdog.watch.is_open


def test_a_turn_ends_when_its_callback_fails() -> None:
    with watched(LIMIT_MS) as turns, pytest.raises(ZeroDivisionError):
        turns.run(lambda: 1 / 0)
    assert not turns.watchdog.watch.is_open


def test_the_longest_job_of_a_turn_names_it_if_it_took_half_of_it() -> None:
    @job("retention")
    def retention() -> None:
        hold(HELD_MS)

    def pass_() -> None:
        with job("checkpoint"):
            hold(1)
        retention()
        with job("expiry"):
            hold(1)

    def unnamed() -> None:
        with job("checkpoint"):
            hold(1)
        hold(HELD_MS)

    with watched(LIMIT_MS) as turns:
        turns.run(pass_)
        turns.run(unnamed)
    assert names(turns) == ["retention", name_of(unnamed)]


def test_a_job_outside_of_a_watched_thread_runs() -> None:
    done = []
    with watched(LIMIT_MS) as turns:

        @job("retention")
        def work() -> None:
            assert current() is None
            note("retention", 1 << 40)
            done.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done == [True]
    assert turns.long == []


def test_an_exception_is_counted_apart() -> None:
    with watched(LIMIT_MS) as turns:
        turns.watchdog.phase = exceptions.START
        turns.run(hold)
        turns.watchdog.phase = None
    assert turns.long == []
    assert turns.watchdog.excused_turns == {exceptions.START: 1}
    assert turns.watchdog.longest[exceptions.START].held_ns >= HELD_MS * 1_000_000


def test_an_exception_inside_a_turn_excuses_only_itself() -> None:
    @job(exceptions.FIRST_GROUPS)
    def excused() -> None:
        hold()

    def all_of_it() -> None:
        hold(5)
        excused()
        hold(5)

    def too_much() -> None:
        excused()
        hold()

    with watched(LIMIT_MS) as turns:
        turns.run(all_of_it)
        assert turns.long == []
        turns.run(too_much)
    assert names(turns) == [name_of(too_much)]
    assert turns.watchdog.excused_turns == {exceptions.FIRST_GROUPS: 2}


def test_a_turn_in_which_more_is_counted_apart_than_it_took_has_no_length() -> None:
    with watched(LIMIT_MS) as turns:
        turns.run(lambda: turns.watchdog.watch.apart("work", 10_000_000_000, 0))
    assert names(turns) == ["work"]
    assert turns.watchdog.lengths.sum < 11_000_000_000


@pytest.mark.parametrize("generation", [0, 1, 2])
def test_a_collection_that_waits_for_a_core_is_not_long(generation: int, tmp_path: Path) -> None:
    """Nor does the turn around it count the same time again."""
    long: list[LongTurn] = []
    watchdog, account = Watchdog(LIMIT_MS * 1_000_000, long.append), Account(tmp_path / "schedstat")
    watch = watchdog.watch
    account.wait(1_000_000_000)  # before
    watch.bind(account)
    watch.begin()
    for _ in range(2):
        watch.collection("start", {"generation": generation})
        began_ns = time.monotonic_ns()
        time.sleep(2 * LIMIT_MS / 1_000)
        account.wait(time.monotonic_ns() - began_ns)
        watch.collection("stop", {"generation": generation})
    watch.end("work")
    assert long == []


def test_a_garbage_collection_is_a_turn_of_its_own() -> None:
    class Slow:
        def __del__(self) -> None:
            hold()

    def leave() -> None:
        one = Slow()
        one.itself = one  # type: ignore[attr-defined]
        del one
        gc.collect()

    with watched(LIMIT_MS) as turns:
        turns.run(leave)
    assert names(turns) == ["garbage collection of generation 2"]


def test_the_log_warns_once_of_each_kind_of_turn(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(1)
    watchdog.bind()
    for what in ("one", "one", "another", "one"):
        watchdog.watch.begin()
        hold(1)
        watchdog.watch.end(what)
    watchdog.unbind()
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert re.findall(r"(?m): (one|another) held the loop for [1-9]", "\n".join(warned)) == ["one", "another"]
    assert watchdog.long_turns["one"] == 3


@pytest.mark.parametrize(
    ("asked", "limit_ns"), [("", None), ("warn", None), ("fail", LIMIT_NS), ("fail:100", 100_000_000)], ids=str
)
def test_the_environment_makes_long_turns_a_failure(
    asked: str, limit_ns: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(SWITCH, asked)
    assert fail_ns() == limit_ns
    watchdog = Watchdog(LIMIT_NS, fail_ns=fail_ns())
    for length_ms in (101, 101, 30):
        watchdog.watch.apart("work", length_ms * 1_000_000, 0)
    failed = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(failed) == {"": 0, "warn": 0, "fail": 3, "fail:100": 2}[asked]
    assert all("too long" in record.getMessage() for record in failed)
    assert watchdog.has_failed == bool(failed)
    assert watchdog.long_turns == {"work": 3}


def hold_and_finish(done: asyncio.Future[None], *_: Any) -> None:
    if not done.done():
        hold()
        done.set_result(None)


@on_both_loops
def test_every_way_into_a_callback_is_a_turn(with_uvloop: bool) -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        finished = loop.create_future()
        finished.set_result(None)
        ways: list[Callable[[asyncio.Future[None]], object]] = [
            lambda done: loop.call_soon(hold_and_finish, done),
            lambda done: loop.call_later(0.001, hold_and_finish, done),
            lambda done: loop.call_at(loop.time() + 0.001, hold_and_finish, done),
            lambda done: threading.Thread(target=loop.call_soon_threadsafe, args=(hold_and_finish, done)).start(),
            lambda done: (loop.add_signal_handler(signal.SIGUSR1, hold_and_finish, done), os.kill(os.getpid(), signal.SIGUSR1)),
            lambda done: (loop.add_reader(ours, hold_and_finish, done), theirs.send(b"x")),
            lambda done: (loop.remove_reader(ours), loop.add_writer(ours, hold_and_finish, done)),
            lambda done: finished.add_done_callback(functools.partial(hold_and_finish, done)),
            lambda done: loop.run_in_executor(None, int).add_done_callback(functools.partial(hold_and_finish, done)),
        ]
        for enter in ways:
            done = loop.create_future()
            enter(done)
            await done
        loop.remove_writer(ours)
        ours.close()
        theirs.close()
        return len(ways)

    turns = run_watched(main, limit_ms=LIMIT_MS, with_uvloop=with_uvloop)
    assert names(turns).count("hold_and_finish") == turns.result  # to start the executor's thread may take long, too


@on_both_loops
def test_a_step_of_a_task_is_a_turn_with_the_name_of_its_coroutine(with_uvloop: bool) -> None:
    async def first_step() -> None:
        hold()

    async def later_step() -> None:
        await asyncio.sleep(0.001)
        hold()

    async def main() -> str:
        await asyncio.gather(first_step(), later_step())
        return "result"

    turns = run_watched(main, limit_ms=LIMIT_MS, with_uvloop=with_uvloop)
    assert [name.rpartition(".")[2] for name in names(turns)] == ["first_step", "later_step"]
    assert turns.result == "result"


def test_the_document_lists_the_exceptions() -> None:
    rows = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", DOCUMENT.read_text().partition("## The exceptions")[2])
    assert dict(rows[1:]) == exceptions.EXCEPTIONS
