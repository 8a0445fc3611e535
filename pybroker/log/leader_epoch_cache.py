"""Which leader epoch began at which offset, in memory and in `leader-epoch-checkpoint`.

Example
    Epochs 0, 2, 3 begin at offsets 0, 10, 15; the log ends at 20. Epoch 0 ends at 10; epoch 1 is not known, the
    largest below it is 0 and that ends at 10; epoch 3 ends at 20; epoch 4 is unknown.

An epoch without records
    A leader's epoch begins where its log ended when it became the leader, also before its first record. So the epoch of a new
    partition ends at 0, and the epoch of a partition whose records were all deleted up to N ends at N. A client that has
    committed N would take "unknown" for a truncation. Kafka writes an entry into the file. Here the entry is in memory until the
    first record comes (`lead`). So a new partition needs no file, and a start that raises the epoch of 10,000 partitions writes
    none. `end_offset_for` and `epoch_for_offset` hold the only rule for every request.

The file is written without fsync when an epoch begins; `Log.flush` makes it durable with the data. It may lag behind
after a crash of the machine: recovery then adds the epochs that it finds in the batches.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache; KIP-101, KIP-279.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.checkpoints.checkpoint import CorruptCheckpointError, read_entries, write_entries
from pybroker.model import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.records.batch import BatchView

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH: Final = NO_LEADER_EPOCH
UNDEFINED_OFFSET: Final = NO_OFFSET
EPOCH_CREDIBLE_MAX: Final = LeaderEpoch((1 << 30) - 1)
"""The largest epoch that a file is believed to have. Elections do not come this far, and the epochs above are not used up."""


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochEndOffset(NamedTuple):
    """The largest epoch up to a requested one, and the offset where it ends; both are undefined (-1) if nothing is known."""

    epoch: LeaderEpoch
    end_offset: Offset


class HeaderEpochs:
    """The leader epochs of batch headers. The checksum does not cover them, so a damaged one must not become the base of all
    later epochs: at the largest int32, there is none left.
    """

    __slots__ = ("_has_warned", "_path")

    def __init__(self, path: str) -> None:
        """Name `path`, the batches' file or directory, in the warning, of which there is one."""
        self._path = path
        self._has_warned = False

    def of(self, batch: BatchView) -> LeaderEpoch:
        """Return the batch's epoch; UNDEFINED_EPOCH if only damage explains it."""
        epoch = batch.partition_leader_epoch
        if epoch <= EPOCH_CREDIBLE_MAX:
            return epoch
        if not self._has_warned:
            logger.warning(
                "%s: the batch at offset %d has the leader epoch %d, which no election has reached: its header is damaged there, "
                "and its epoch is ignored, like others above %d of that file",
                self._path,
                batch.base_offset,
                epoch,
                EPOCH_CREDIBLE_MAX,
            )
            self._has_warned = True
        return UNDEFINED_EPOCH


class LeaderEpochCache:
    """One partition's epochs, ascending in both columns.

    Attributes:
        entries: the epochs that have records, or had some that were deleted; the content of the file.
        largest_epoch: the largest that was ever in the file or in the data, even if its records are deleted.
        is_behind: the file could not be written since `entries` changed; it must be written before anything counts as
        durable.
        is_dirty: the file was written since it was last made durable.
    """

    __slots__ = ("_filesystem", "_leading", "entries", "is_behind", "is_dirty", "largest_epoch", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path
        self.entries: list[EpochEntry] = []
        self.largest_epoch = UNDEFINED_EPOCH
        self.is_dirty = False
        self.is_behind = False
        self._leading: EpochEntry | None = None  # this broker's epoch as the leader; after all of `entries`, in both columns

    def load(self) -> bool:
        """Read the file. Returns False if it is damaged: the caller must then `replace` the entries by those of the data."""
        self.entries, self._leading = [], None
        try:
            entries = [
                EpochEntry(LeaderEpoch(int(e)), Offset(int(s))) for e, s in read_entries(self._filesystem, self.path, fields=2)
            ]
        except (CorruptCheckpointError, ValueError):
            return False
        if any(not 0 <= entry.epoch <= EPOCH_CREDIBLE_MAX or entry.start_offset < 0 for entry in entries):
            return False
        for entry in entries:
            self._insert(entry)
        return True

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Replace all entries, in the file at once: a file with a part of them would look sound to a start."""
        self.entries, self._leading = [], None
        for entry in entries:
            self._insert(entry)
        self.write()

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The epoch of the last record; UNDEFINED_EPOCH if there is none."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def lead(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that this broker leads in `epoch` from `start_offset`, the log end, on. The epoch's first record brings
        it into the file.
        """
        known = self._known()
        if epoch < 0 or (known and known[-1].epoch == epoch and known[-1].start_offset <= start_offset):
            return
        if self._leading is not None:
            self._insert(self._leading)
        self._leading = EpochEntry(epoch, start_offset)
        self._drop_contradictions(self._leading)

    def follow(self) -> None:
        """Forget the epoch in which this broker led without a record: the leader may have records of an older one there."""
        self._leading = None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that records from `start_offset` on have `epoch`; entries that contradict it are dropped."""
        known = self._known()
        is_known = bool(known) and known[-1].epoch == epoch and known[-1].start_offset <= start_offset
        leading = self._leading
        if epoch < 0 or (is_known and leading is None):
            return
        if leading is not None:  # it becomes an entry like any other
            self._leading = None
            self._insert(leading)
        if not is_known:
            self._insert(EpochEntry(epoch, start_offset))
        self.write()

    def assign_if_newer(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note an epoch found in the data, if it is larger than all known epochs."""
        if epoch > self.latest_epoch:
            self.assign(epoch, start_offset)

    def _insert(self, entry: EpochEntry) -> None:
        self._drop_contradictions(entry)
        self.entries.append(entry)
        self.largest_epoch = max(self.largest_epoch, entry.epoch)

    def _drop_contradictions(self, entry: EpochEntry) -> None:
        entries = self.entries
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()

    def _known(self) -> list[EpochEntry]:
        """Return all epochs, including that of a leader that has not written yet."""
        return self.entries if self._leading is None else [*self.entries, self._leading]

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEndOffset:
        """Return the largest known epoch <= `epoch` and the offset where it ends; both are undefined (-1) if nothing is
        known of it.
        """
        known = self._known()
        if epoch == UNDEFINED_EPOCH or not known or epoch > known[-1].epoch:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == known[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        floor = epoch  # an epoch older than all that are kept has no records left, and ended where the first kept epoch begins
        for entry in known:
            if entry.epoch > epoch:
                return EpochEndOffset(floor, entry.start_offset)
            floor = entry.epoch
        raise AssertionError("the latest epoch is larger")

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch in which the record at `offset` was or will be written, or UNDEFINED_EPOCH."""
        found = UNDEFINED_EPOCH
        for entry in self._known():
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Forget epochs that begin at or after `end_offset`."""
        if self._leading is not None and self._leading.start_offset >= end_offset:
            self._leading = None
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.write()

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Forget the epochs before `start_offset`; the epoch in force there then begins there."""
        gone = [entry for entry in self.entries if entry.start_offset <= start_offset]
        leading = self._leading
        if leading is not None and leading.start_offset <= start_offset:  # no records are left, and those to come have this epoch
            self._leading = EpochEntry(leading.epoch, start_offset)
            if gone:
                self.entries = []
                self.write()
        elif (gone and gone[-1:] != [EpochEntry(gone[-1].epoch, start_offset)]) or len(gone) > 1:
            self.entries[: len(gone)] = [EpochEntry(gone[-1].epoch, start_offset)]
            self.write()

    def clear(self) -> None:
        """Forget everything."""
        self.replace(())

    def write(self) -> None:
        """Write the entries to the file, without making it durable. Raises OSError, but the change still holds in memory."""
        self.is_behind = True
        write_entries(self._filesystem, self.path, (f"{e} {s}" for e, s in self.entries), sync=False)
        self.is_behind, self.is_dirty = False, True
