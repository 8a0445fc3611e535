"""Work that runs to its end, even if the request that waits for it is cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class Uninterrupted:
    """Runs each coroutine in a task of its own. A caller that waits may be cancelled; the task is not, so its effects
    are complete.
    """

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself holds tasks weakly

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for `work`; a cancelled caller leaves it running. Raises what `work` raises."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        reason = str(error) or type(error).__name__
        logger.warning("A change of the metadata failed; the request that asked for it was given up before: %s", reason)
