"""The end of the process that started this one."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""How often a process looks whether its parent has ended. A process whose parent has ended gets another parent, on every system,
and whatever has ended the first one.
"""


def stop_without(parent: int, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Set `stop` when the parent of this process is another one than `parent`."""
    if os.getppid() == parent:
        loop.call_later(LOOK_S, stop_without, parent, loop, stop)
    else:
        logger.info("The process %d, which started the broker, has ended", parent)
        stop.set()
