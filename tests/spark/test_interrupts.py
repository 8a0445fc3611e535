"""Ctrl-C stops the threads of a mirror at whatever step of the main thread it comes."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from pybroker.model import FIRST_OFFSET
from pybroker.spark.errors import PipelineError
from pybroker.spark.interrupts import held_interrupt
from pybroker.spark.mirror import job
from pybroker.spark.mirror.partition import Copied, Part
from testing.waiting import WAIT_S

TRACED = {Path(job.__file__).name, "interrupts.py", "thread.py", "_base.py", "threading.py", "contextlib.py"}
TASKS = [(cast("Part", number), FIRST_OFFSET + 1) for number in range(2)]


class Steps:
    """A trace of the main thread that interrupts it at step `at`; a step is a line of the job or of what it calls."""

    def __init__(self, at: int) -> None:
        self.count, self._at = 0, at

    def __enter__(self) -> Steps:
        self._before = sys.gettrace()
        sys.settrace(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _look(self, frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).name not in TRACED:
            return None
        if event == "line":
            self.count += 1
            if self.count == self._at:
                signal.raise_signal(signal.SIGINT)
        return self._look


def test_ctrl_c_at_any_step_stops_the_threads_and_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "mirror_partition", lambda *_: Copied())
    at = is_over = 0
    while not is_over:
        at += 1
        steps = Steps(at)
        try:
            with steps:
                job._in_threads(TASKS, 2)
        except KeyboardInterrupt:
            assert steps.count >= at
        else:
            is_over = steps.count < at
            assert is_over, f"the SIGINT at step {at} is lost"
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("mirror")]
    assert at > 100


def test_ctrl_c_ends_a_task_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(part: Part, _: int, stop: threading.Event) -> Copied:
        if part == TASKS[0][0]:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if stop.wait(WAIT_S):
            raise PipelineError("stopped")
        return Copied()

    monkeypatch.setattr(job, "mirror_partition", wait)
    with pytest.raises(KeyboardInterrupt):
        job._in_threads(TASKS, 2)


def test_a_failure_stops_the_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(part: Part, _: int, stop: threading.Event) -> Copied:
        if part == TASKS[0][0]:
            raise PipelineError("no broker")
        assert stop.wait(WAIT_S)
        return Copied()

    monkeypatch.setattr(job, "mirror_partition", fail)
    with pytest.raises(PipelineError, match="no broker"):
        job._in_threads(TASKS, 2)


def test_the_second_sigint_is_not_held_back() -> None:
    calls: list[None] = []

    def interrupt_twice() -> None:
        with held_interrupt(lambda: calls.append(None)):
            signal.raise_signal(signal.SIGINT)
            assert calls == [None]
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            calls.append(None)

    with pytest.raises(KeyboardInterrupt):
        interrupt_twice()
    assert calls == [None, None]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_thread_than_the_main_one_just_runs_the_block() -> None:
    ran: list[bool] = []

    def run() -> None:
        with held_interrupt(lambda: None):
            ran.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT_S)
    assert ran == [True]
