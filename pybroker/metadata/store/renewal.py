"""A session of a remote store, which ends it when it is not renewed in time, and then deletes its keys in one commit.

Time
    The store ends a session when its time to live is over after the store has received the last renewal. So the owner counts
    from when it has sent that renewal, and takes the session for ended no later than the store does.

A renewal that fails is sent again until the time is over. If the store does not know the session any more, it has ended. The
owner logs why, and what follows from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pybroker.metadata.store.base import Session, StoreError

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
"""The pause between a renewal that failed and the next one."""


class Lease(NamedTuple):
    """The store's side of a session, and for how long it lives after a renewal; 0 if the store does not know it."""

    lease_id: str
    ttl_s: float


class RenewedSession(Session):
    """A session with a lease that was requested at `sent_s`.

    `renew` returns the lease again, or raises StoreError. `end` marks the session as ended, and ends it in the store.
    """

    __slots__ = ("_end", "_failure", "_looking", "_renew", "_renew_s", "_renewing", "lease_id", "level")

    def __init__(
        self,
        lease: Lease,
        renew: Callable[[RenewedSession], Awaitable[Lease]],
        end: Callable[[RenewedSession], Awaitable[None]],
        *,
        sent_s: float,
        renew_s: float,
    ) -> None:
        super().__init__()
        self._renew, self._end, self._renew_s = renew, end, renew_s
        self.lease_id = lease.lease_id
        self.level = logging.WARNING
        """The level of the lines about renewals that fail."""
        self._failure = "the store does not respond"
        self.valid_until_s = sent_s + lease.ttl_s
        loop = asyncio.get_running_loop()
        self._renewing = loop.create_task(self._renew_always())
        self._looking = loop.call_at(self.valid_until_s, self._look)

    async def close(self) -> None:
        """End the session; idempotent. Its keys are gone when this returns; if the store is silent, when its time is over, and a
        line in the log has that.
        """
        if self.ended.is_set():
            return
        until_s = self.valid_until_s
        try:
            async with asyncio.timeout_at(until_s):
                await self._end(self)
        except (StoreError, TimeoutError) as error:
            left_s = max(0.0, until_s - asyncio.get_running_loop().time())
            logger.info(
                "This broker could not end its session with the metadata store: %s. Other brokers notice that it is gone when "
                "the time of the session is over, in %.1f s at most",
                str(error) or self._failure,
                left_s,
            )

    def mark_ended(self, reason: str = "this process has closed it") -> None:
        """Note that the session has ended, and renew it no more."""
        super().mark_ended(reason)
        self._looking.cancel()
        self._renewing.cancel()

    def _look(self) -> None:
        """End the session when its time is over."""
        loop = asyncio.get_running_loop()
        if loop.time() < self.valid_until_s:
            self._looking = loop.call_at(self.valid_until_s, self._look)
        else:
            self.mark_ended(f"it could not be renewed in time, because {self._failure}")

    async def _renew_always(self) -> None:
        loop, has_failed, pause_s = asyncio.get_running_loop(), False, self._renew_s
        while True:
            await asyncio.sleep(pause_s)
            sent_s = loop.time()
            try:
                lease = await self._renew(self)
            except StoreError as error:
                self._failure = str(error)
                if not has_failed:
                    logger.log(
                        self.level,
                        "This broker could not renew its session with the metadata store, and tries again until the session "
                        "ends in %.1f s: %s",
                        max(0.0, self.valid_until_s - loop.time()),
                        error,
                    )
                has_failed, pause_s = True, PAUSE_S
                continue
            if lease.ttl_s == 0:
                self.mark_ended("the store does not know it any more, because it was not renewed in time, or was removed")
                return
            if has_failed:
                logger.log(min(self.level, logging.INFO), "This broker has renewed its session with the metadata store again")
            self.valid_until_s = sent_s + lease.ttl_s
            has_failed, pause_s = False, max(0.0, sent_s + self._renew_s - loop.time())
