"""A fetch that found too little to read and waits for more.

The fetch completes as soon as one of cases A to F or H holds for one of its partitions, or case G holds for all of
them together:

    Case A: this broker no longer leads the partition, and the request may read from the leader only.
    Case B: this broker no longer has a replica of it.
    Case C: this broker no longer knows it: the topic was deleted. A partition that it did not know when the fetch came
            is no reason.
    Case D: its log directory failed.
    Case E: the leader epoch that the request named is now fenced.
    Case F: the fetch offset is not in the segment where reading ends. Either the log has rolled, so the rest of a
            segment is available, or it was truncated to before the offset.
    Case G: the bytes that became available in all partitions, each counted up to its own limit, reach the request's
            minimum.
    Case H: the log was truncated so that its epochs no longer agree with the fetcher's: the fetcher must truncate
            too.

Then, or when its time is over, the fetch reads all partitions again (`fetching.py`) and the response has whatever is there:
errors too, so the cases need no responses of their own. Deciding reads nothing: it compares offsets and file positions that are
in memory.

Everything that changes a partition wakes the requests that wait for it (`ReplicaManager.wake`). So a fetch of many partitions
remembers the bytes that each of them had when it began to wait, and looks only at the partition of an event.

Source: kafka.server.DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchResults
    from pybroker.replication.replica_manager import ReplicaManager

DUE: Final = -1
FEW_PARTITIONS: Final = 8
"""A fetch of no more partitions remembers nothing: to look at all of them costs less."""

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_Start = tuple["FetchPartition", "LogOffsetMetadata | ErrorCode | None"]


class DelayedFetch(DelayedOperation):
    """A fetch that waits under each of its partitions. It keeps the positions of the fetch offsets in the logs, but no
    records.
    """

    __slots__ = ("_available", "_bytes_available", "_on_due", "_params", "_places", "_replicas", "_waiting")

    _available: list[int]
    _bytes_available: int

    def __init__(self, replicas: ReplicaManager, params: FetchParams, results: FetchResults) -> None:
        super().__init__()
        self._replicas = replicas
        self._params = params
        self._waiting: list[_Start] = [
            (wanted, data.fetch_offset_metadata if data.error_code is not _UNKNOWN else _UNKNOWN) for wanted, data in results
        ]
        self._on_due: Callable[[None], object] = _ignore
        self._places: dict[Hashable, int] | None = None  # the places in `_waiting` and `_available`, once they are remembered

    def add_done_callback(self, callback: Callable[[None], object]) -> None:
        """Call `callback` when the partitions are to be read again."""
        self._on_due = callback

    def try_complete(self) -> bool:
        """Complete the fetch if one of the module's cases holds."""
        if self._places is not None:
            return self._is_enough()
        if len(self._waiting) > FEW_PARTITIONS:
            return self._try_and_remember()
        try:
            is_due = self._is_due()
        except KafkaError:
            is_due = True  # Case D
        return is_due and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Complete the fetch if one of the module's cases holds, now that the partition `key` may have changed."""
        places = self._places
        if places is None:
            return self.try_complete()
        place = places[key]
        try:
            available = self._look_at(*self._waiting[place])
        except KafkaError:
            available = DUE  # Case D
        if available == DUE:
            return self.force_complete()
        self._bytes_available += available - self._available[place]
        self._available[place] = available
        return self._is_enough()

    def _is_enough(self) -> bool:
        return self._bytes_available >= self._params.min_bytes and self.force_complete()  # Case G

    def _try_and_remember(self) -> bool:
        found: list[int] = []
        try:
            for wanted, start in self._waiting:
                available = self._look_at(wanted, start)
                if available == DUE:
                    return self.force_complete()
                found.append(available)
        except KafkaError:
            return self.force_complete()  # Case D
        self._available, self._bytes_available = found, sum(found)
        places: dict[Hashable, int] = {wanted.topic_partition: place for place, (wanted, _) in enumerate(self._waiting)}
        if len(places) == len(found):  # otherwise a partition is there twice
            self._places = places
        return self._is_enough()

    def _is_due(self) -> bool:
        bytes_available = 0
        for wanted, start in self._waiting:
            available = self._look_at(wanted, start)
            if available == DUE:
                return True
            bytes_available += available
        return bytes_available >= self._params.min_bytes  # Case G

    def _look_at(self, wanted: FetchPartition, start: LogOffsetMetadata | ErrorCode | None) -> int:
        """Return the bytes that became available in one partition; DUE if it ends the wait alone. Raises KafkaError."""
        params = self._params
        partition = self._replicas.partition(wanted.topic_partition)
        if isinstance(partition, ErrorCode):
            return 0 if start is _UNKNOWN and partition is _UNKNOWN else DUE  # Case B, C, D
        if isinstance(start, ErrorCode):
            return DUE  # the partition has been created since
        if partition.refusal(wanted.current_leader_epoch, require_leader=params.fetch_only_leader) is not None:
            return DUE  # Case A, E
        available = 0
        end = partition.end_metadata(params.isolation)
        if start is not None and start.offset != end.offset:
            # Equal offsets may lie in different segments if the log has just rolled: that is not case F. Nor is
            # an offset that the high watermark or an open transaction still hides.
            if start.offset > end.offset:
                if start.offset > partition.log.log_end_offset:
                    return DUE  # Case F
            elif start.segment_base_offset != end.segment_base_offset:
                return DUE  # Case F
            else:
                available = min(end.position - start.position, wanted.max_bytes)
        if wanted.last_fetched_epoch >= 0 and partition.is_diverging(wanted):
            return DUE  # Case H
        return available

    def on_complete(self) -> None:
        """Report that the wait is over."""
        on_due, self._on_due = self._on_due, _ignore
        on_due(None)

    def give_up(self) -> None:
        """End the wait, unless it is over, because its client is gone."""
        self._waiting, self._on_due = [], _ignore
        self.force_complete()

    def on_expiration(self) -> None:
        """Count the expired fetch."""
        if self._params.is_from_follower:
            self._replicas.follower_fetch_expirations += 1
        else:
            self._replicas.consumer_fetch_expirations += 1


def _ignore(_: None) -> None:
    """Report to no one."""
