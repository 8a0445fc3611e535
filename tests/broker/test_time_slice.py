"""The scheduler is asked for short slices, and nothing else about the thread changes."""

from __future__ import annotations

import os
import platform
import sys
import threading
from pathlib import Path

import pytest

from pybroker.broker.time_slice import SLICE_NS, ask_for_short_slices

ACCOUNT = Path("/proc/thread-self/sched")


def slice_ns() -> int:
    """Return the slice of the calling thread, as the kernel shows it."""
    (line,) = [line for line in ACCOUNT.read_text().splitlines() if line.startswith("se.slice")]
    return int(line.rpartition(":")[2])


def in_a_thread(*, nice: int = 0) -> tuple[bool, int, int, int]:
    """Ask in a thread of its own, as the wish stays; return what came of it, with the slice of a thread that it starts."""
    found: list[tuple[bool, int, int, int]] = []
    inner: list[int] = []

    def ask() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        granted, own_ns = ask_for_short_slices(), slice_ns()
        thread = threading.Thread(target=lambda: inner.append(slice_ns()))
        thread.start()
        thread.join()
        found.append((granted, own_ns, os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), inner[0]))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def kernel_has_slices() -> bool:
    if not (sys.platform == "linux" and ACCOUNT.exists() and os.sched_getscheduler(0) == os.SCHED_OTHER):
        return False
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    return release >= (6, 12) and "se.slice" in ACCOUNT.read_text()


@pytest.mark.skipif(not kernel_has_slices(), reason="needs Linux 6.12 that shows slices, and the ordinary class")
@pytest.mark.parametrize("nice", [0, 5])
def test_a_thread_has_short_slices_and_its_priority_and_its_threads_have_neither_changed(nice: int) -> None:
    granted, own_ns, nice_after, of_its_thread_ns = in_a_thread(nice=nice)
    assert granted
    assert own_ns == SLICE_NS
    assert nice_after == nice
    assert of_its_thread_ns > SLICE_NS


def test_another_class_of_scheduling_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_BATCH)
    assert not ask_for_short_slices()


def test_another_machine_has_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not ask_for_short_slices()
