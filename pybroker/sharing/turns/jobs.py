"""Names for what runs within a turn, so that the log and the metrics can name it.

    from pybroker.sharing.turns.jobs import job

    with job("retention"):
        ...                     # one slice

A job that is an exception (see exceptions.py) is a turn of its own: it excuses nothing of what runs before and after it.
Otherwise a turn has the name of the longest job in it, if that took at least half of the turn. Nothing is recorded in a thread
without a watched loop, such as the thread of a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns

from pybroker.sharing.turns.exceptions import EXCEPTIONS
from pybroker.sharing.turns.watchdog import current


@contextmanager
def job(name: str) -> Iterator[None]:
    """Name what runs inside. Also a decorator of functions, though not of coroutines. Takes about a microsecond."""
    watchdog = current()
    if watchdog is None:
        yield
        return
    began_ns = monotonic_ns()
    waited_ns = watchdog.watch.waited_ns() if name in EXCEPTIONS else 0
    try:
        yield
    finally:
        if name in EXCEPTIONS:
            watchdog.watch.apart(name, monotonic_ns() - began_ns, watchdog.watch.waited_ns() - waited_ns)
        else:
            watchdog.note(name, monotonic_ns() - began_ns)


def note(name: str, duration_ns: int) -> None:
    """Name what took this long, up to now, in the turn under way."""
    watchdog = current()
    if watchdog is not None:
        watchdog.note(name, duration_ns)
