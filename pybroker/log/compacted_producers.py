"""Producers of whom compaction has left no batch: a recovery that reads the log anew takes them from their snapshots.

Compaction keeps the last batch of each producer. If what came after its look at the log is lost with the power, the last batch
that is left is an older one, or none, and a retry of what was compacted away would be written a second time. The snapshots of
the segments were made when those batches were there. They are believed where the log itself cannot tell: where it has a gap now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.log import producer_snapshot
from pybroker.log.producer_entry import ProducerEntry

if TYPE_CHECKING:
    from pybroker.log.log import Log


class CompactedProducers:
    """What the snapshots above `offset` say, read before a recovery that begins there removes them. Raises OSError."""

    def __init__(self, log: Log, offset: int) -> None:
        self._log = log
        self._snapshots: list[tuple[int, list[ProducerEntry]]] = []  # with the youngest last, as they are taken from there
        for one in sorted((one for one in log.producers.snapshots if one > offset), reverse=True):
            try:
                entries = producer_snapshot.read(log.filesystem, producer_snapshot.path(log.path, one))
            except producer_snapshot.CorruptSnapshotError:
                continue  # torn by the crash; the batches that it was made of were not durable
            self._snapshots.append((one, entries))

    def bring_back(self, upto: int) -> None:
        """The log was read up to this offset: add what the snapshots up to it know more. Raises OSError."""
        while self._snapshots and self._snapshots[-1][0] <= upto:
            for entry in self._snapshots.pop()[1]:
                if self._is_newer(entry) and not self._is_covered(entry.batches[-1].last_offset):
                    self._take(entry)

    def _is_newer(self, entry: ProducerEntry) -> bool:
        if not entry.batches:
            return False
        known = self._log.producers.producers.get(entry.producer_id)
        if known is None:
            return not self._log.producers.is_expired(entry, self._log.services.clock.time_ms())
        if entry.producer_epoch != known.producer_epoch:
            return entry.producer_epoch > known.producer_epoch
        return not known.batches or known.batches[-1].last_offset < entry.batches[-1].last_offset

    def _is_covered(self, offset: int) -> bool:
        """Whether a batch has the offset: then the snapshot is of what was in the log before that."""
        for segment in self._log.segments.starting_with(offset):
            for _, batch in segment.intact(segment.position_of(offset)):
                if batch.last_offset >= offset:
                    return batch.base_offset <= offset
        return False

    def _take(self, entry: ProducerEntry) -> None:
        """Its transaction, if one was open, is what the log says of it: compaction leaves open ones alone."""
        producers = self._log.producers.producers
        known = producers.setdefault(entry.producer_id, ProducerEntry(entry.producer_id))
        known.set_epoch(entry.producer_epoch)
        known.batches.append(entry.batches[-1])
        known.coordinator_epoch = max(known.coordinator_epoch, entry.coordinator_epoch)
        known.last_timestamp = max(known.last_timestamp, entry.last_timestamp)
