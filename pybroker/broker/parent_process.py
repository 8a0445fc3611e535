"""The end of the process that started this one."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""How often a process looks whether its parent has ended. A process whose parent has ended gets another parent, on every system,
and whatever has ended the first one.
"""

EXIT_S: Final = 45.0
"""The time for a stop, the last flush of a slow disk included, after which a process that is still there exits without it."""


def stop_without(parent: int, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set `stop` when the parent of this process is another one than `parent`, and exit if that does not end the process.

    A thread looks, because a loop that hangs would not.
    """
    threading.Thread(target=_look, args=(parent, loop, stop), name="parent", daemon=True).start()


def _look(parent: int, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    logger.info("The process %d, which started the broker, has ended", parent)
    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(stop.set)
    time.sleep(EXIT_S)
    logger.critical("The broker has not stopped in %.0f s, and exits", EXIT_S)
    os._exit(1)
