"""Holds Ctrl-C back while code with locks and threads runs.

A KeyboardInterrupt can come between any two steps of the main thread, also between a lock's acquisition and the `with` block that
would release it. Then the lock stays taken: the threads that need it never end, and neither does the process that waits for them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


@contextmanager
def held_interrupt(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `on_interrupt` when the first SIGINT comes in the block, and handle this SIGINT as usual at the end of the block.

    `on_interrupt` runs between any two steps of the main thread, so it must not take a lock; `put` of a SimpleQueue does not.
    The second SIGINT is handled as usual at once. In another thread than the main one, which receives no signals, the block just
    runs.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came = False

    def hold(number: int, _: FrameType | None) -> None:
        nonlocal came
        signal.signal(number, before)
        came = True
        on_interrupt()

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
