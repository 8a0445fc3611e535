"""An event loop that marks whatever it calls as a turn, and has a watchdog that judges the turns.

uvloop has no hook around its callbacks, so each way into our code is marked:

    call_soon, call_later, call_at, call_soon_threadsafe, add_reader, add_writer, add_signal_handler
        here: the loop gets an Entry around each callback. Steps of tasks, results of futures and of threads come this way too:
        tasks and futures call `call_soon` of their loop, executors `call_soon_threadsafe`.
    methods of a protocol
        the transport calls them directly; a protocol marks them itself, with `watchdog_of(loop).watch`.
    garbage collection
        `gc.callbacks`, in the watchdog.

Each loop overrides only the methods that its base does not build on another one of them, so that a callback has one mark.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pybroker.sharing.turns.watch import Entry

if TYPE_CHECKING:
    from pybroker.sharing.turns.watchdog import Watchdog

__all__ = ["new_event_loop"]

_ASYNCIO_LOOP: Any = asyncio.SelectorEventLoop


class _WatchedLoop:
    """The methods that both kinds of loops override."""

    watchdog: Watchdog

    def run_forever(self) -> None:
        """Run, with the calling thread watched."""
        self.watchdog.bind()
        try:
            super().run_forever()  # type: ignore[misc]
        finally:
            self.watchdog.unbind()

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(Entry(self.watchdog.watch, callback), *args, context=context)  # type: ignore[misc]

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon_threadsafe(Entry(self.watchdog.watch, callback), *args, context=context)  # type: ignore[misc]

    def add_reader(self, descriptor: Any, callback: Any, *args: Any) -> Any:
        return super().add_reader(descriptor, Entry(self.watchdog.watch, callback), *args)  # type: ignore[misc]

    def add_writer(self, descriptor: Any, callback: Any, *args: Any) -> Any:
        return super().add_writer(descriptor, Entry(self.watchdog.watch, callback), *args)  # type: ignore[misc]

    def add_signal_handler(self, number: int, callback: Any, *args: Any) -> Any:
        return super().add_signal_handler(number, Entry(self.watchdog.watch, callback), *args)  # type: ignore[misc]


class _AsyncioLoop(_WatchedLoop, _ASYNCIO_LOOP):  # type: ignore[misc]  # a method that takes any arguments has no better type
    """Plain asyncio, whose `call_later` calls `call_at`."""

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, Entry(self.watchdog.watch, callback), *args, context=context)


def new_event_loop(watchdog: Watchdog, *, with_uvloop: bool = True) -> asyncio.AbstractEventLoop:
    """Return a loop that the watchdog watches: of uvloop, where that is installed and wanted."""
    loop: Any = _new_uvloop() if with_uvloop else None
    if loop is None:
        loop = _AsyncioLoop()
    loop.watchdog = watchdog
    watchdog.rounds.call_soon = loop.call_soon
    return loop  # type: ignore[no-any-return]


def _new_uvloop() -> Any:
    try:
        from uvloop import Loop  # noqa: PLC0415  not there on every system
    except ImportError:
        return None
    base: Any = Loop

    class UvLoop(_WatchedLoop, base):  # type: ignore[misc]  # its types differ from those of asyncio's
        """uvloop, whose `call_at` calls `call_later`."""

        def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
            return super().call_later(delay, Entry(self.watchdog.watch, callback), *args, context=context)

    return UvLoop()
