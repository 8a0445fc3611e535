"""Waits that end: each has a limit well below pytest-timeout's, and fails with the name of the awaited event.

A test that reaches pytest-timeout kills its worker, and with it the run; a test that fails here is an ordinary failure.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Any, AnyStr, Final, TypeVar

WAIT_S: Final = 120
"""The limit of waits that take a moment on an idle machine."""
LONG_WAIT_S: Final = 300
"""The limit of downloads, compilers and jobs."""

T = TypeVar("T")


def until(condition: Callable[[], object], what: str, timeout_s: float = WAIT_S, *, pause_s: float = 0.02) -> None:
    """Poll until the condition holds. Raises AssertionError with `what` when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain: {what}"
        time.sleep(pause_s)


class Deadline:
    """A limit for a loop that asks for more until it has everything; the loop calls `check` in each turn."""

    def __init__(self, what: str, timeout_s: float = WAIT_S) -> None:
        self._what, self._timeout_s = what, timeout_s
        self._end = time.monotonic() + timeout_s

    def check(self) -> None:
        """Raise AssertionError when the time is over."""
        assert time.monotonic() < self._end, f"waited {self._timeout_s:g} s in vain: {self._what}"


async def turned_until(condition: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    """Give the loop one turn after the other until the condition holds. Raises AssertionError as `until` does."""
    deadline = Deadline(what, timeout_s)
    while not condition():
        deadline.check()
        await asyncio.sleep(0)


def within(timeout_s: float, what: str, call: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a call that has no limit of its own, such as a read from a pipe.

    Raises TimeoutError with `what` when the call takes longer. The thread that makes the call then remains until the call
    returns; it keeps no process from ending.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call(*arguments))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"waited {timeout_s:g} s in vain: {what}")
    return results[0]


def line_of(stream: IO[AnyStr], what: str, timeout_s: float = WAIT_S) -> AnyStr:
    """Return the next line that a process writes; empty when the process has ended."""
    return within(timeout_s, what, stream.readline)


def joined(thread: threading.Thread, what: str, timeout_s: float = WAIT_S) -> None:
    """Wait for the end of a thread."""
    thread.join(timeout_s)
    assert not thread.is_alive(), f"waited {timeout_s:g} s in vain: {what}"


def killed(process: subprocess.Popen[Any], timeout_s: float = WAIT_S) -> None:
    """Kill a process, if it still runs, and wait for its end; read its pipes to their ends and close them."""
    process.kill()
    process.communicate(timeout=timeout_s)
