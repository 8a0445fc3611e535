"""Removes delegation tokens that have expired, from time to time, on the broker that is the controller."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pybroker.metadata.delegation_tokens import remove_expired
from pybroker.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.metadata.controller import Controller

logger = logging.getLogger(__name__)


class TokenExpiry:
    """The removal of expired tokens. One runs at a time."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self._controller, self._clock = controller, clock
        self.task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Remove what has expired, if this broker is the controller."""
        image = self._controller.image
        if image.controller_id == image.broker_id and (self.task is None or self.task.done()):
            self.task = asyncio.get_running_loop().create_task(self._remove())

    async def _remove(self) -> None:
        try:
            await remove_expired(self._controller, self._clock.time_ms())
        except KafkaError as error:
            logger.warning("Expired delegation tokens could not be removed, which is tried again later: %s", error.message)
