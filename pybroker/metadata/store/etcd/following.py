"""Follows every change of a namespace: the watch is resumed where it broke, and after a compaction the difference is listed.

Each revision is delivered once, and in order. What a compaction has hidden is delivered at once: the keys that differ from those
that were known, with the revisions that put them, and those that are gone, with the revision of the listing.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, NotSentError, RefusedError
from pybroker.metadata.store.etcd.messages import Item, WatchResponse

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.1
"""How long a watch that broke waits before it is resumed."""
PAGE: Final = 1_000
UNKNOWN: Final = 2
COMPACTED: Final = 11
"""gRPC's OUT_OF_RANGE, with which etcd refuses a revision that it has compacted."""


async def list_all(gateway: Gateway, prefix: str, *, keys_only: bool = False) -> tuple[list[Item], int]:
    """Return all keys with a prefix as of one revision, and the revision. Raises as `Gateway.call`."""
    found: list[Item] = []
    revision, after = 0, ""
    while True:
        request = messages.read_all(prefix, after=after, count_max=PAGE, revision=revision, keys_only=keys_only)
        try:
            response = await gateway.call(messages.RANGE, request)
        except RefusedError as error:
            if error.code != COMPACTED:
                raise
            found, revision, after = [], 0, ""  # what was listed so far is too old to be continued
            continue
        found += messages.items_of(response)
        revision = revision or messages.revision_of(response)
        if not messages.has_more(response):
            return found, revision
        after = found[-1].key


class Following:
    """The changes of all keys with a prefix. `deliver` gets those of each revision, by their keys; it must not raise."""

    def __init__(self, gateway: Gateway, prefix: str, deliver: Callable[[Sequence[Item]], None]) -> None:
        self._gateway, self._prefix, self._deliver = gateway, prefix, deliver
        self._known: dict[str, int] = {}  # the revisions of the keys, to find what a compaction hides
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self.level = logging.WARNING
        """The level of the line about a watch that broke."""
        self.held = asyncio.Lock()
        """Nothing is delivered while a task holds this. The task continues before the changes of that time are delivered."""
        self.revision = 0
        """All changes up to this revision were delivered."""

    async def begin(self) -> None:
        """Follow what changes from now on. Raises as `Gateway.call`."""
        items, self.revision = await list_all(self._gateway, self._prefix, keys_only=True)
        self._known = {item.key: item.revision for item in items}
        self._task = asyncio.create_task(self._run())

    async def reached(self, revision: int) -> None:
        """Wait until the changes of `revision` are delivered."""
        if revision > self.revision:
            future = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (revision, id(future), future))
            await future

    async def close(self) -> None:
        """Stop; what waits is cancelled."""
        for _, _, future in self._waiting:
            future.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        is_broken = False
        while True:
            try:
                if is_broken:  # a member without a majority takes a watch, and delivers nothing
                    await self._gateway.call(messages.RANGE, messages.read(self._prefix))
                watch = self._gateway.stream(messages.WATCH, messages.watch(self._prefix, start=self.revision + 1))
                async with contextlib.aclosing(watch) as delivered:
                    async for message in delivered:
                        is_over = not await self._continues_after(messages.watch_response(message))
                        if is_broken:
                            line = "The broker's watch of the metadata in etcd continues, behind revision %d"
                            logger.log(min(self.level, logging.INFO), line, self.revision)
                        is_broken = False
                        if is_over:
                            break
            except (NotSentError, LostError, RefusedError) as error:
                if not is_broken:
                    logger.log(
                        self.level,
                        "The broker's watch of the metadata in etcd broke: %s. Until a member of etcd responds and the watch "
                        "continues, the broker does not see what others change",
                        error,
                    )
                is_broken = True
            await asyncio.sleep(PAUSE_S)

    async def _continues_after(self, response: WatchResponse) -> bool:
        """Take over what a watch has delivered. Return whether the watch delivers more. Raises RefusedError if it is refused."""
        if response.reason and not response.is_compacted:
            raise RefusedError(UNKNOWN, response.reason)
        async with self.held:
            if response.is_compacted:
                await self._list_difference()
            for revision, items in groupby(response.items, key=lambda item: item.revision):
                self._take(list(items), revision)
        return not response.is_over

    async def _list_difference(self) -> None:
        items, revision = await list_all(self._gateway, self._prefix)
        listed = {item.key for item in items}
        changed = [item for item in items if self._known.get(item.key) != item.revision]
        gone = [Item(key, None, revision) for key in self._known if key not in listed]
        line = "etcd has removed the history that the broker's watch had not delivered: %d keys were compared and taken over"
        logger.info(line, len(changed) + len(gone))
        self._take(changed + gone, revision)

    def _take(self, items: Sequence[Item], revision: int) -> None:
        for item in items:
            if item.value is None:
                self._known.pop(item.key, None)
            else:
                self._known[item.key] = item.revision
        self.revision = revision
        if items:
            self._deliver(sorted(items))
        while self._waiting and self._waiting[0][0] <= self.revision:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)
