"""A partition's idempotent and transactional producers: the last five batches of each, and the open transactions.

Rules for a batch of a producer (from a client; the leader has checked replicated batches)
    duplicate     its epoch and sequence range equal one of the five cached batches: the response has that batch's offsets,
                  and nothing is written
    epoch         smaller than the known one: INVALID_PRODUCER_EPOCH; larger: the producer starts again at sequence 0
    sequence      follows the last one, with 0 after 2^31 - 1; otherwise OUT_OF_ORDER_SEQUENCE_NUMBER. A producer that is not
                  known here (its batches were deleted by retention) may begin anywhere.

Only `update` adds batches: the leader checks a batch first (`check`), writes it, and then updates; recovery only
updates.

Source: org.apache.kafka.storage.internals.log.{ProducerStateManager, ProducerAppendInfo, ProducerStateEntry}; KIP-98,
KIP-185, KIP-1228.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerBatch, ProducerEntry
from pybroker.model import FIRST_OFFSET, NO_OFFSET, NO_PRODUCER_EPOCH, PRODUCER_EPOCH_MAX, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import NO_SEQUENCE, increment_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.sharing.work import Pausing

ABORT_MARKER: Final = 0


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class PendingSnapshot:
    """A snapshot that the next flush writes. Its state does not change."""

    __slots__ = ("_entries", "_filesystem", "offset", "path")

    def __init__(self, filesystem: Filesystem, path: str, offset: Offset, entries: Mapping[ProducerId, ProducerEntry]) -> None:
        self._filesystem = filesystem
        self.path = path
        self.offset = offset
        self._entries = dict(entries)

    def write(self) -> None:
        """Write the file durably, in any thread; its name becomes durable with its directory. Blocks."""
        producer_snapshot.write(self._filesystem, self.path, self._entries.values())
        self._filesystem.sync_path(self.path)
        while self._entries:  # one by one, because the loop has to wait for each step of a thread
            self._entries.popitem()


class ProducerState:
    """One partition's producers. Belongs to the loop.

    `pending` is the snapshot that the next flush writes, if a segment was completed since the last flush: writing a hundred
    thousand producers takes a tenth of a second. Until it is written the log has an older snapshot, from which a start reads
    further.
    """

    __slots__ = (
        "_ended",
        "_filesystem",
        "directory",
        "durable_snapshot_offset",
        "expiration_ms",
        "last_snapshot_offset",
        "map_end_offset",
        "ongoing",
        "pending",
        "producers",
        "snapshots",
        "unreplicated",
    )

    def __init__(self, filesystem: Filesystem, directory: str, *, expiration_ms: int) -> None:
        self._filesystem = filesystem
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[ProducerId, ProducerEntry] = {}
        # First offset -> producer id, of open transactions in the order of their first offsets.
        self.ongoing: OrderedDict[Offset, ProducerId] = OrderedDict()
        # First offset -> last offset, of ended ones whose marker is above the high watermark, in the order of their markers.
        self.unreplicated: OrderedDict[Offset, Offset] = OrderedDict()
        self._ended: list[Offset] = []  # a heap of the first offsets in `unreplicated`, and of some that were there
        self.map_end_offset = FIRST_OFFSET  # the state covers the log below this
        self.last_snapshot_offset = FIRST_OFFSET
        self.durable_snapshot_offset = NO_OFFSET  # that of the snapshot that a clean stop has made durable
        self.snapshots: set[Offset] = set()
        self.pending: PendingSnapshot | None = None

    # --- the rules ---

    def find_duplicate(self, batch: ProducerBatch) -> BatchMetadata | None:
        """Return the cached batch that `batch` repeats."""
        entry = self.producers.get(batch.producer_id)
        return entry.find_duplicate(batch) if entry is not None else None

    def find_continued(self, producer_id: ProducerId, producer_epoch: ProducerEpoch, base_sequence: int) -> ProducerEntry | None:
        """Return the producer that a data batch outside of transactions simply continues; None if the other rules must
        be checked.

        Nearly every batch of an idempotent producer is such a batch.
        """
        entry = self.producers.get(producer_id)
        if (
            entry is None
            or entry.producer_epoch != producer_epoch
            or entry.transaction_first_offset >= 0
            or not entry.batches
            or base_sequence != increment_sequence(entry.batches[-1][0], 1)
        ):
            return None
        return entry

    def check(self, batches: Sequence[ProducerBatch], *, from_client: bool) -> None:
        """Refuse batches that break the rules, before anything is written.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED.
        """
        if len(batches) == 1:  # what every producer since 0.11 sends
            entry = self.producers.get(batches[0].producer_id)
            if entry is not None:
                self._check_one(entry, batches[0], from_client=from_client)
            return
        entries: dict[ProducerId, ProducerEntry] = {}
        for batch in batches:
            entry = entries.get(batch.producer_id)
            if entry is None:
                entry = self.producers.get(batch.producer_id) or ProducerEntry(batch.producer_id)
            self._check_one(entry, batch, from_client=from_client)
            entries[batch.producer_id] = entry.after(batch)

    def _check_one(self, entry: ProducerEntry, batch: ProducerBatch, *, from_client: bool) -> None:
        if batch.producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {batch.producer_epoch} of producer {batch.producer_id} is older than {entry.producer_epoch}",
            )
        if batch.marker is not None:
            if entry.coordinator_epoch > batch.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"coordinator epoch {batch.coordinator_epoch} is older than {entry.coordinator_epoch}",
                )
            return
        if from_client:
            _check_sequence(entry, batch)
        if entry.transaction_first_offset >= 0 and not batch.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} wrote outside of its open transaction")

    def add(self, entry: ProducerEntry, base_sequence: int, last_offset: Offset, offset_delta: int, timestamp: int) -> None:
        """Add a batch that is in the log and for which `find_continued` returned `entry`."""
        self.producers[entry[0]] = entry.add(base_sequence, last_offset, offset_delta, timestamp)

    def copy(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: int,
        last_offset: Offset,
        offset_delta: int,
        timestamp: int,
    ) -> None:
        """Add a data batch outside of transactions that is in the log because the leader has it."""
        continued = self.find_continued(producer_id, producer_epoch, base_sequence)
        if continued is not None:
            self.add(continued, base_sequence, last_offset, offset_delta, timestamp)
        else:
            base_offset = Offset(last_offset - offset_delta)
            self.update(ProducerBatch(producer_id, producer_epoch, base_sequence, base_offset, last_offset, timestamp, False))

    def update(self, batch: ProducerBatch) -> CompletedTransaction | None:
        """Add a batch that is in the log.

        Returns the transaction that it ends; `complete` it after its index entry is written.
        """
        entry = self.producers.get(batch.producer_id) or ProducerEntry(batch.producer_id)
        first_offset = entry.transaction_first_offset
        self.producers[batch.producer_id] = entry.after(batch)
        if batch.marker is not None:
            if first_offset < 0:  # a transaction without data here changes nothing for readers
                return None
            return CompletedTransaction(batch.producer_id, first_offset, batch.base_offset, batch.marker == ABORT_MARKER)
        if batch.is_transactional and first_offset < 0:
            self.ongoing[batch.base_offset] = batch.producer_id
        return None

    # --- transactions ---

    def has_open_transaction(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Return whether the producer has written in this epoch to a transaction that is open."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.producer_epoch == producer_epoch

    def takes_new_epoch(self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
        """Return whether a marker of transaction version 2, which has an epoch of its own, may end the producer's transaction.

        The epoch must be larger than that of the batches (KIP-1228), so that a late marker of the transaction before does not end
        the present one. A marker that is repeated changes nothing, and the last epoch cannot be followed by a larger one.
        """
        entry = self.producers.get(producer_id)
        if entry is None or epoch > entry.producer_epoch:
            return True
        return epoch == entry.producer_epoch and (entry.transaction_first_offset < 0 or epoch == PRODUCER_EPOCH_MAX)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Return the last stable offset after `completed` is complete."""
        others = (first for first, producer_id in self.ongoing.items() if producer_id != completed.producer_id)
        return next(others, Offset(completed.last_offset + 1))

    def complete(self, completed: CompletedTransaction) -> None:
        """Mark a transaction as ended; it still holds back readers until the high watermark passes its marker."""
        self.ongoing.pop(completed.first_offset, None)
        self.unreplicated[completed.first_offset] = completed.last_offset
        heappush(self._ended, completed.first_offset)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction that is open, or whose end is not replicated yet."""
        if not self.ongoing and not self.unreplicated:
            return None
        ended = self._ended
        while ended and ended[0] not in self.unreplicated:
            heappop(ended)
        first = next(iter(self.ongoing), None)
        if first is None or not ended:
            return ended[0] if first is None else first
        return min(first, ended[0])

    def is_late(self, since_ms: int) -> bool:
        """Return whether the oldest open transaction has had no record since a time. Another thread may call it."""
        entries, ongoing = self.producers, tuple(self.ongoing.values())
        entry = entries.get(ongoing[0]) if ongoing else None
        return entry is not None and 0 <= entry.last_timestamp < since_ms

    def on_high_watermark(self, high_watermark: Offset) -> None:
        """Forget ended transactions whose markers are below the high watermark."""
        unreplicated = self.unreplicated
        while unreplicated and next(iter(unreplicated.values())) < high_watermark:
            unreplicated.popitem(last=False)
        if not unreplicated:
            self._ended.clear()

    # --- life ---

    def remove_expired(self, now_ms: int) -> Pausing[None]:
        """Forget producers that were silent too long and have no open transaction."""
        ids = list(self.producers)
        while ids:  # taken off, so that what is freed is freed here
            producer_id = ids.pop()
            entry = self.producers.get(producer_id)
            if entry is not None and self.is_expired(entry, now_ms):
                del self.producers[producer_id]
            yield None

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        """Return whether the producer was silent for `producer.id.expiration.ms` and has no open transaction."""
        return entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    def on_log_start_offset(self, log_start_offset: Offset) -> None:
        """Remove the snapshots before the new log start offset, which are not needed any more."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self.last_snapshot_offset = max(self.snapshots, default=log_start_offset)

    def clear(self, map_end_offset: Offset) -> None:
        """Forget everything, and remove the snapshots."""
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self._ended.clear()
        for offset in list(self.snapshots):
            self.delete_snapshot(offset)
        self.last_snapshot_offset = FIRST_OFFSET
        self.map_end_offset = map_end_offset
        self.pending = None

    # --- snapshots ---

    def find_snapshots(self) -> None:
        """Find the snapshots in the directory."""
        self.snapshots = producer_snapshot.list_offsets(self._filesystem, self.directory)

    def take_snapshot(self) -> str | None:
        """Write the state, if the log has moved since the last snapshot. Returns the file's path if so; it is not durable yet."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return None
        path = self._path(self.map_end_offset)
        producer_snapshot.write(self._filesystem, path, self.producers.values())
        self.snapshots.add(self.map_end_offset)
        self.last_snapshot_offset = self.map_end_offset
        self.pending = None
        return path

    def request_snapshot(self) -> None:
        """Have the next flush write the state of now, if the log has moved since the last snapshot; see `pending`."""
        if self.map_end_offset > self.last_snapshot_offset:
            self.pending = PendingSnapshot(self._filesystem, self._path(self.map_end_offset), self.map_end_offset, self.producers)

    def note_written(self, snapshot: PendingSnapshot, *, is_wanted: bool) -> None:
        """Note that a requested snapshot is durable; if the log no longer has that state, remove the file. Raises OSError."""
        if self.pending is snapshot:
            self.pending = None
        if is_wanted:
            self.snapshots.add(snapshot.offset)
            if snapshot.offset > self.last_snapshot_offset:
                self.last_snapshot_offset = self.durable_snapshot_offset = snapshot.offset
        elif snapshot.offset not in self.snapshots:
            self._filesystem.remove(snapshot.path)

    @property
    def snapshot_to_sync(self) -> str | None:
        """The youngest snapshot if it may not be durable. A clean start without a snapshot reads all batches, and compaction may
        have left none of a producer.
        """
        offset = self.last_snapshot_offset
        return self._path(offset) if offset in self.snapshots and offset != self.durable_snapshot_offset else None

    def reload(self, *, log_start_offset: Offset, log_end_offset: Offset, now_ms: int) -> None:
        """Return to the youngest sound snapshot in (start, end]; the caller replays the log from `map_end_offset`."""
        self.pending = None
        for offset in list(self.snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self.delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset(log_start_offset)
            return
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self._ended.clear()
        while self.snapshots:
            offset = max(self.snapshots)
            try:
                entries = producer_snapshot.read(self._filesystem, self._path(offset))
            except producer_snapshot.CorruptSnapshotError:
                self.delete_snapshot(offset)
                continue
            for entry in sorted(entries, key=lambda entry: entry.transaction_first_offset):
                if not self.is_expired(entry, now_ms):
                    self.producers[entry.producer_id] = entry
                    if entry.transaction_first_offset >= 0:
                        self.ongoing[entry.transaction_first_offset] = entry.producer_id
            self.last_snapshot_offset = self.map_end_offset = offset
            return
        self.last_snapshot_offset = self.map_end_offset = log_start_offset

    def remove_stray_snapshots(self, segment_offsets: set[Offset]) -> None:
        """Keep the snapshots at segment starts, and the youngest if it is above them all (it is from a clean shutdown)."""
        strays = sorted(self.snapshots - segment_offsets)
        if strays and strays[-1] >= max(segment_offsets, default=-1):
            strays.pop()
        for offset in strays:
            self.delete_snapshot(offset)

    def delete_snapshot(self, offset: Offset) -> None:
        """Remove the snapshot of exactly that offset, if there is one."""
        if offset in self.snapshots:
            self.snapshots.discard(offset)
            self._filesystem.remove(self._path(offset))

    def _path(self, offset: Offset) -> str:
        return producer_snapshot.path(self.directory, offset)


def _check_sequence(entry: ProducerEntry, batch: ProducerBatch) -> None:
    if batch.producer_epoch != entry.producer_epoch:
        if batch.base_sequence == 0 or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return
        expected = 0
    else:
        last = entry.last_sequence
        expected = increment_sequence(last, 1) if last != NO_SEQUENCE else 0
        if batch.base_sequence == expected:
            return
    raise KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"sequence {batch.base_sequence} of producer {batch.producer_id} in epoch {batch.producer_epoch}, expected {expected}",
    )
