"""Waits until a broker has done what it has begun, for a test that moves its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.broker.disks import Disks
    from pybroker.sharing.background import Background

TURNS: Final = 4
"""The turns of the loop without work after which nothing follows from what was begun."""


async def settled(disks: Disks, background: Background) -> None:
    """Return when nothing is to be done: in threads, in the background, in the next turns of the loop."""
    turns = 0
    while turns < TURNS:
        await disks.idle()
        background.hurry()
        await asyncio.sleep(0)
        turns = 0 if disks.is_busy or background.is_busy else turns + 1
