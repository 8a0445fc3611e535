"""A session of a remote store, which ends it when it is not renewed in time, and then deletes its keys in one commit.

Time
    The store ends a session when its time to live is over after the store has received the last renewal. So the owner counts
    from when it has sent that renewal, and takes the session for ended no later than the store does.

A renewal that fails is sent again until the time is over. If the store does not know the session any more, it has ended.
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

    __slots__ = ("_end", "_looking", "_renew", "_renew_s", "_renewing", "lease_id")

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
        self.valid_until_s = sent_s + lease.ttl_s
        loop = asyncio.get_running_loop()
        self._renewing = loop.create_task(self._renew_always())
        self._looking = loop.call_at(self.valid_until_s, self._look)

    async def close(self) -> None:
        """End the session; idempotent. Its keys are gone when this returns; if the store is silent, when its time is over."""
        if self.ended.is_set():
            return
        try:
            async with asyncio.timeout_at(self.valid_until_s):
                await self._end(self)
        except (StoreError, TimeoutError) as error:
            logger.warning("The session with the metadata store was not closed, so it ends when its time is over: %s", error)

    def mark_ended(self) -> None:
        """Note that the session has ended, and renew it no more."""
        super().mark_ended()
        self._looking.cancel()
        self._renewing.cancel()

    def _look(self) -> None:
        """End the session when its time is over."""
        loop = asyncio.get_running_loop()
        if loop.time() < self.valid_until_s:
            self._looking = loop.call_at(self.valid_until_s, self._look)
        else:
            logger.error("The session with the metadata store has ended, because it could not be renewed in time")
            self.mark_ended()

    async def _renew_always(self) -> None:
        loop, has_failed, pause_s = asyncio.get_running_loop(), False, self._renew_s
        while True:
            await asyncio.sleep(pause_s)
            sent_s = loop.time()
            try:
                lease = await self._renew(self)
            except StoreError as error:
                if not has_failed:
                    logger.warning("The session with the metadata store was not renewed, which is tried again: %s", error)
                has_failed, pause_s = True, PAUSE_S
                continue
            if lease.ttl_s == 0:
                logger.error("The session with the metadata store has ended, because the store does not know it any more")
                self.mark_ended()
                return
            if has_failed:
                logger.info("The session with the metadata store is renewed again")
            self.valid_until_s = sent_s + lease.ttl_s
            has_failed, pause_s = False, max(0.0, sent_s + self._renew_s - loop.time())
