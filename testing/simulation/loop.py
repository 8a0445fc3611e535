"""An event loop on a manual clock, and disk threads that work when the loop would have waited.

Nothing runs in parallel, so the same seed gives the same run. Before each turn of the loop, chance decides whether a disk thread
does a job. Within a job, at any operation of the disk, chance may give the loop some turns. So everything that a thread and the
loop can do to each other happens, as long as the thread sees each step of the loop as a whole.

When nothing is ready and no job is left, the clock is set to the next timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, TypeVar

from pybroker.broker.disk_thread import DiskThread, Done
from pybroker.clock import ManualClock

Result = TypeVar("Result")
_TURNS_MAX = 12  # turns of the loop within an operation of a thread


HOUR_MS = 3_600_000
SLOW_MS = 500  # how long an operation of a disk may take


class NothingToDoError(Exception):
    """The awaited event can never come, or has not come within an hour of the clock."""


class _NoSelector:
    """A replacement for the system's selector: there are no sockets, and waiting sets the clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        self._loop.wait(timeout)
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop on a manual clock. `interleaving` is the share of a thread's operations within which the loop gets turns."""

    def __init__(self, clock: ManualClock, random: Random | None = None, interleaving: float = 0.0) -> None:
        super().__init__()
        self._clock_resolution = 0.0005  # half a ms, more than the rounding error of a sum of times
        self.clock = clock
        self.random = random or Random(0)
        self.interleaving = interleaving
        self.threads: list[SimulatedDiskThread] = []
        self._selector = _NoSelector(self)
        self._at_work: SimulatedDiskThread | None = None
        self._is_within = False
        self.locks_held = 0
        self._began_ms = 0

    def time(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def _process_events(self, events: Any) -> None:
        """Do nothing, because there are no events."""

    def _write_to_self(self) -> None:
        """Do nothing, because no other thread runs that could need to wake the loop."""

    def wait(self, timeout: float | None) -> None:
        """Do a job of a thread between two turns or, when nothing else is left to do, advance to the next timer."""
        if self._at_work is not None:
            return
        waiting = [thread for thread in self.threads if thread.jobs]
        if waiting and (timeout != 0 or self.random.random() < 0.5):
            self.work(self.random.choice(waiting))
        elif timeout is None:
            raise NothingToDoError("nothing is ready, no job is left, and no timer is set")
        elif self.clock.monotonic_ms() - self._began_ms > HOUR_MS:
            raise NothingToDoError("an hour has passed without what is waited for")
        elif timeout > 0:
            self.clock.advance(max(1, round(timeout * 1000)))

    def work(self, thread: SimulatedDiskThread) -> None:
        """Do the oldest job of the thread."""
        self._at_work = thread
        try:
            thread.work()
        finally:
            self._at_work = None

    def within_operation(self) -> None:
        """Give the loop some turns, by chance, before an operation of a thread's disk begins."""
        if self._at_work is None or self._is_within or self.locks_held or self.random.random() >= self.interleaving:
            return
        self._is_within = True  # operations of the loop's turns do not count as the thread's
        try:
            for _ in range(self.random.randint(1, _TURNS_MAX)):
                if not self._ready:  # type: ignore[attr-defined]  # the loop's own queue
                    self._let_time_pass()
                if self._ready or self._scheduled:  # type: ignore[attr-defined]
                    self._run_once()  # type: ignore[attr-defined]  # within the selector's call, where no turn is under way
        finally:
            self._is_within = False

    def _let_time_pass(self) -> None:
        """Advance the clock as a slow disk does, so that the loop's next timer may be due before the operation is done."""
        if self._scheduled and self.random.random() < 0.5:  # type: ignore[attr-defined]
            left = self._scheduled[0].when() - self.time()  # type: ignore[attr-defined]
            self.clock.advance(max(0, min(round(left * 1000), SLOW_MS)))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run until `work` is done. Raises NothingToDoError."""
        self._began_ms = self.clock.monotonic_ms()
        return self.run_until_complete(work)

    def end(self) -> None:
        """End the loop as the death of the process does: drop every task, callback and timer."""
        self.threads.clear()
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # the death is intended
            task.get_coro().close()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()


class SimulatedDiskThread(DiskThread):
    """A disk thread whose jobs wait for `work`. It is made on a running `SimulatedLoop`, which does the jobs."""

    __slots__ = ("jobs", "loop")

    def __init__(self, name: str, on_bug: Callable[[], None]) -> None:
        super().__init__(name, on_bug)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.jobs: deque[tuple[Callable[[], None], Done]] = deque()
        loop.threads.append(self)

    def run(self, work: Callable[[], None], done: Done) -> None:
        self.unreported += 1
        self.jobs.append((work, done))

    def work(self) -> None:
        """Do the oldest job, and report it in a later turn of the loop."""
        work, done = self.jobs.popleft()
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        self.loop.call_soon(self._report, done, error)


class SimulatedLock:
    """A replacement for `threading.Lock`: the loop gets no turns while a thread holds it, because it could not wait here."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._loop.locks_held += 1

    def __exit__(self, *_: object) -> None:
        self._loop.locks_held -= 1


class InlineExecutor(Executor):
    """A replacement for a pool of threads, which does submitted work at once."""

    def __init__(self, *_: object, **__: object) -> None:
        """Accept the arguments of a pool."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
