"""The thread of a log directory reports every result, in order, and whatever happens."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator

import pytest

from pybroker.broker.disk_thread import DiskThread
from pybroker.failures import SHORTAGES


class Outcomes:
    """A `done` that keeps its argument and the thread that it runs in."""

    def __init__(self) -> None:
        self.errors: list[OSError | None] = []
        self.threads: set[int] = set()

    def __call__(self, error: OSError | None) -> None:
        self.errors.append(error)
        self.threads.add(threading.get_ident())


def refuse() -> None:
    raise OSError(errno.EIO, "bad sector")


def stumble() -> None:
    raise ValueError("not what a disk reports")


@pytest.fixture
async def bugs() -> list[str]:
    return []


@pytest.fixture
async def disk(bugs: list[str]) -> AsyncIterator[DiskThread]:
    thread = DiskThread("disk /a", lambda: bugs.append("bug"))
    yield thread
    thread.stop()


async def test_jobs_run_one_after_the_other_elsewhere_and_are_reported_on_the_loop(disk: DiskThread, bugs: list[str]) -> None:
    outcomes, ran = Outcomes(), []
    for number in range(3):
        disk.run(lambda number=number: ran.append((number, threading.get_ident())), outcomes)  # type: ignore[misc]
    disk.run(refuse, outcomes)
    assert outcomes.errors == [], "not before the loop has its turn"
    await disk.idle()
    assert [number for number, _ in ran] == [0, 1, 2]
    assert outcomes.errors[:3] == [None] * 3
    assert outcomes.errors[3] is not None
    assert outcomes.errors[3].errno == errno.EIO
    assert outcomes.threads == {threading.get_ident()}
    assert threading.get_ident() not in {thread for _, thread in ran}
    assert bugs == []


async def test_an_error_of_no_disk_is_logged_counted_and_reported_as_a_failure(
    disk: DiskThread, bugs: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = Outcomes()
    disk.run(stumble, outcomes)
    disk.run(lambda: None, outcomes)
    await disk.idle()
    failure, after = outcomes.errors
    assert isinstance(failure, OSError)
    assert failure.errno == errno.EIO
    assert isinstance(failure.__cause__, ValueError)
    assert after is None, "the next job runs"
    assert bugs == ["bug"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None


@pytest.mark.parametrize("shortage", [MemoryError(), RuntimeError("can't start new thread")], ids=["memory", "thread"])
async def test_a_shortage_is_no_fault_of_the_disk_and_no_bug(
    disk: DiskThread, bugs: list[str], caplog: pytest.LogCaptureFixture, shortage: Exception
) -> None:
    def work() -> None:
        raise shortage

    outcomes = Outcomes()
    disk.run(work, outcomes)
    await disk.idle()
    (error,) = outcomes.errors
    assert error is not None
    assert error.errno in SHORTAGES, "a directory that gets this error stays online"
    assert (bugs, caplog.records) == ([], [])


async def test_a_report_that_fails_is_counted_and_does_not_stop_the_thread(
    disk: DiskThread, bugs: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = Outcomes()

    def fail(_error: OSError | None) -> None:
        raise RuntimeError("in the report")

    disk.run(lambda: None, fail)
    disk.run(lambda: None, outcomes)
    await disk.idle()
    assert outcomes.errors == [None]
    assert bugs == ["bug"]
    assert "in the report" in caplog.text


async def test_idle_waits_for_what_reports_ask_for(disk: DiskThread) -> None:
    outcomes = Outcomes()
    disk.run(lambda: None, lambda _error: disk.run(refuse, outcomes))
    await disk.idle()
    assert len(outcomes.errors) == 1
    assert disk.unreported == 0
    await disk.idle()  # at once


async def test_a_disk_that_hangs_can_be_given_up(disk: DiskThread) -> None:
    released, outcomes = threading.Event(), Outcomes()
    disk.run(released.wait, outcomes)  # type: ignore[arg-type]  # its result is of no interest
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await disk.idle()
    assert outcomes.errors == []
    released.set()
    await disk.idle()
    assert outcomes.errors == [None]


async def test_a_thread_that_cannot_be_started_is_reported_and_tried_again(
    disk: DiskThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_to_start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    outcomes, ran = Outcomes(), []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_to_start)
        disk.run(lambda: ran.append(0), outcomes)
    await disk.idle()
    assert [None if error is None else error.errno for error in outcomes.errors] == [errno.EMFILE]
    disk.run(lambda: ran.append(1), outcomes)
    await disk.idle()
    assert (ran, outcomes.errors[1:]) == ([1], [None])
