"""Follows the store: makes the image of each commit, and lets the parts of the broker follow, large commits in slices.

Order
    Commits are followed one after the other, in their order. A small one, which is the usual case, is followed before the store's
    commit returns; a large one gives the loop back after each slice, and later commits wait behind it. `settled` waits for all.

What others see between the slices of one commit
    1. The image of the commit is made, and listeners prepare for it: the logs of new partitions are made. Every reader still
       has the image before, and no request reaches a new partition.
    2. In one step the image is replaced, and each listener takes over what must change at once: from then on new partitions take
       records, and deleted ones are unknown.
    3. Listeners finish: the files of deleted logs are renamed, and settings reach the logs. A topic that is deleted is unknown
       meanwhile, and its name cannot be used again before the last of its logs is gone, because the next commit waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.metadata.entries import applied
from pybroker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from pybroker.metadata.store.base import Change
    from pybroker.sharing.work import Pausing

Rest = Iterator[None] | None
Listener = Callable[[ClusterImage, ClusterImage, ImageDelta], Rest]
"""A function of the image before, the image after, and their difference, called when the image is replaced. It may return the
rest of its work, which is run in slices before the operation that made the change returns. Raising takes back the topics that the
change added.
"""
Preparation = Callable[[ClusterImage, ImageDelta], Iterator[None]]
"""Work of a listener before any reader has the image after, in slices. It must not raise: the listener does, when it
is called.
"""


class Followers(NamedTuple):
    """One part of the broker that follows the image."""

    listener: Listener
    preparation: Preparation | None


class StoreFollower:
    """Follows the commits of a store for the controller, which owns the image."""

    __slots__ = ("_commits", "_followers", "_image", "_is_running", "_replace", "_report", "_rest", "planned")

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        replace: Callable[[ClusterImage, ImageDelta], None],
        report: Callable[[Exception], None],
    ) -> None:
        """Call `replace` with each next image, in the step in which listeners follow; `report` takes what a listener raises."""
        self._image, self._replace, self._report = image, replace, report
        self.planned: Mapping[bytes, TopicImage] = {}
        """The topics of the operation that runs, by the values that encode them: they need not be decoded."""
        self._followers: list[Followers] = []
        self._commits: deque[Sequence[Change]] = deque()
        self._is_running = True  # in a way: nothing is followed before `begin`
        self._rest: asyncio.Future[None] | None = None

    def subscribe(self, listener: Listener, preparation: Preparation | None = None) -> None:
        """Call `listener` at each later change, and run its `preparation` before."""
        self._followers.append(Followers(listener, preparation))

    def unsubscribe(self, listener: Listener) -> None:
        """Do not call `listener` any more."""
        self._followers = [one for one in self._followers if one.listener != listener]

    def begin(self) -> None:
        """Follow what has come, and all that comes. The image has the listing now: before, a commit that is followed in slices
        could replace it by one that does not.
        """
        self._is_running = False
        if self._commits:
            self._start()

    def follow(self, changes: Sequence[Change]) -> None:
        """Follow a commit, now or behind those that are being followed; this is the store's watch."""
        self._commits.append(changes)
        if not self._is_running:
            self._start()

    def _start(self) -> None:
        self._is_running = True
        self._rest = in_slices(self._run())

    async def settled(self) -> None:
        """Wait until every commit so far is followed."""
        if self._rest is not None and not self._rest.done():
            await asyncio.wait([self._rest])

    def _run(self) -> Pausing[None]:
        try:
            while self._commits:
                try:
                    yield from self._follow(self._commits.popleft())
                except Exception as error:  # the next commits must be followed all the same
                    self._report(error)
        finally:
            self._is_running = False

    def _follow(self, changes: Sequence[Change]) -> Pausing[None]:
        old = self._image()
        revision = max(change.revision for change in changes)  # one of a listing has several
        if revision <= old.revision:
            return  # the listing at the start already had this change
        new, delta = yield from applied(old, changes, revision, self.planned)
        for follower in self._followers if delta else ():
            if follower.preparation is not None:
                yield from self._reported(follower.preparation(new, delta))
        self._replace(new, delta)
        if not delta:
            return
        rests = []
        for follower in tuple(self._followers):
            try:
                rest = follower.listener(old, new, delta)
            except Exception as error:
                self._report(error)
            else:
                rests.append(rest)
        for rest in rests:
            if rest is not None:
                yield from self._reported(rest)

    def _reported(self, work: Iterator[None]) -> Pausing[None]:
        try:
            yield from work
        except Exception as error:
            self._report(error)
