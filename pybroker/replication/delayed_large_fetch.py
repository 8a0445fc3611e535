"""A fetch of many partitions that found too little to read and waits for more.

Idea
    A `DelayedFetch` looks at all of its partitions when one of them changes: about 1 us for each. This one remembers the bytes
    that each partition had, and looks only at the partition that has changed. Everything that changes a partition wakes the
    requests that wait for it (`ReplicaManager.wake`), so the sum is always right.

    It is watched in steps, so that others get their turn. A partition is looked at after it is watched, so no change is missed.
    It reads nothing when it completes: what waits for it reads all partitions again, in steps too. Its memory of them is freed in
    steps.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import KafkaError
from pybroker.replication.delayed_fetch import DUE, DelayedFetch, start_of
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchPartitionData
    from pybroker.replication.replica_manager import ReplicaManager


class DelayedLargeFetch(DelayedFetch):
    """A fetch that is due as a `DelayedFetch` is. `on_due` is called once, and then it has ended."""

    __slots__ = ("_available", "_bytes_available", "_on_due", "_places")

    def __init__(self, replicas: ReplicaManager, params: FetchParams, on_due: Callable[[], None]) -> None:
        super().__init__(replicas, params, [], lambda _: None)
        self._on_due = on_due
        self._places: dict[Hashable, int] = {}
        self._available: list[int] = []
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

    def try_complete_at(self, key: Hashable) -> bool:
        """Complete the fetch if one of the cases of `delayed_fetch` holds, now that the partition `key` may have changed."""
        place = self._places[key]
        try:
            available = self._look_at(*self._waiting[place])
        except KafkaError:
            available = DUE  # Case D
        if available == DUE:
            return self.force_complete()
        self._bytes_available += available - self._available[place]
        self._available[place] = available
        return self._bytes_available >= self._params.min_bytes and self.force_complete()

    def on_complete(self) -> None:
        """Report that the wait is over."""
        self._on_due()
