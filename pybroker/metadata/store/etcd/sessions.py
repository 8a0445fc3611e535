"""A session in etcd: a lease, which etcd ends when it is not renewed, and then deletes its keys in one revision.

Time
    A lease ends its time to live after etcd has received the last renewal. So the owner counts from when it has sent that
    renewal, and takes the session for ended no later than etcd does. When etcd elects a leader, each lease begins its time
    again, which only makes it longer.

A renewal that fails is sent again until the time is over. A response without a time to live shows that etcd does not know the
lease any more: the session has ended then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from pybroker.metadata.store.base import Session
from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, NotSentError, RefusedError

if TYPE_CHECKING:
    from pybroker.metadata.store.etcd.messages import Lease

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
"""The pause between a renewal that failed and the next one."""


class EtcdSession(Session):
    """A session with a lease that was requested at `sent_s`. `end` closes it in etcd."""

    __slots__ = ("_end", "_gateway", "_looking", "_renew_s", "_renewing", "lease_id")

    def __init__(
        self, gateway: Gateway, lease: Lease, end: Callable[[EtcdSession], Awaitable[None]], *, sent_s: float, renew_s: float
    ) -> None:
        super().__init__()
        self._gateway, self._end, self._renew_s = gateway, end, renew_s
        self.lease_id = lease.lease_id
        self.valid_until_s = sent_s + lease.ttl_s
        loop = asyncio.get_running_loop()
        self._renewing = loop.create_task(self._renew())
        self._looking = loop.call_at(self.valid_until_s, self._look)

    async def close(self) -> None:
        """End the session; idempotent. Its keys are gone when this returns; if etcd cannot be reached, when its time is over."""
        if not self.ended.is_set():
            await self._end(self)

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
            logger.error("The session with etcd has ended, because it could not be renewed in time")
            self.mark_ended()

    async def _renew(self) -> None:
        loop, failure = asyncio.get_running_loop(), ""
        pause_s = self._renew_s
        while True:
            await asyncio.sleep(pause_s)
            sent_s, message = loop.time(), messages.lease(self.lease_id)
            try:
                lease = messages.lease_of(await self._gateway.call(messages.LEASE_RENEWAL, message, within_s=self._renew_s))
            except (NotSentError, LostError, RefusedError) as error:
                if not failure:
                    logger.warning("The session with etcd was not renewed, which is tried again: %s", error)
                failure, pause_s = str(error), PAUSE_S
                continue
            if lease.ttl_s == 0:
                logger.error("The session with etcd has ended, because etcd does not know it any more")
                self.mark_ended()
                return
            if failure:
                logger.info("The session with etcd is renewed again")
            self.valid_until_s = sent_s + lease.ttl_s
            failure, pause_s = "", max(0.0, sent_s + self._renew_s - loop.time())
