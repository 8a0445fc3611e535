"""A fetch of many partitions that found too little to read and waits for more.

Idea
    A `DelayedFetch` looks at all of its partitions when it begins to wait, and at the first event: about 1 us for each. This one
    remembers the bytes that each partition had from its beginning.

    It is watched in steps, so that others get their turn. A partition is looked at after it is watched, so no change is missed.
    It reads nothing when it completes: what waits for it reads all partitions again, in steps too. Its memory of them is freed in
    steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from pybroker.replication.delayed_fetch import DelayedFetch, start_of
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchPartitionData
    from pybroker.replication.replica_manager import ReplicaManager


class DelayedLargeFetch(DelayedFetch):
    """A fetch that is due as a `DelayedFetch` is. `on_due` is called once, and then it has ended."""

    __slots__ = ("_on_due",)

    _places: dict[Hashable, int]

    def __init__(self, replicas: ReplicaManager, params: FetchParams, on_due: Callable[[], None]) -> None:
        super().__init__(replicas, params, [], lambda _: None)
        self._on_due = on_due
        self._places = {}
        self._available = []
        self._bytes_available = 0

    def watch(self, wanted: FetchPartition, data: FetchPartitionData) -> Hashable:
        """Wait for more than `data` too. Return the key, under which `try_complete_at` may be called from now on."""
        key = wanted.topic_partition
        self._places[key] = len(self._waiting)
        self._waiting.append(start_of(wanted, data))
        self._available.append(0)
        return key

    def free(self) -> Generator[None, None, None]:
        """Free what a completed fetch remembers, in steps."""
        return emptied(self._waiting, self._places, self._available)

    def on_complete(self) -> None:
        """Report that the wait is over."""
        self._on_due()
