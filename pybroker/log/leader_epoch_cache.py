"""Which leader epoch began at which offset, in memory and in `leader-epoch-checkpoint`.

Example
    epochs 0, 2, 3 from offsets 0, 10, 15; the log ends at 20. Epoch 0 ends at 10; epoch 1 is not known, the largest below it
    is 0 and that ends at 10; epoch 3 ends at 20; epoch 4 is unknown.

The file is written without fsync when an epoch begins; `Log.flush` makes it durable with the data. It may lag behind after a
crash of the machine: recovery then adds the epochs that it finds in the batches.

Source: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache; KIP-101, KIP-279.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.checkpoint import CorruptCheckpointError, read_entries, write_entries

if TYPE_CHECKING:
    from pybroker.log.filesystem import Filesystem

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """One partition's epochs, ascending in both columns."""

    __slots__ = ("_filesystem", "entries", "is_dirty", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self.path = path
        self.entries: list[EpochEntry] = []
        self.is_dirty = False  # written since it was last made durable

    def load(self) -> bool:
        """Read the file. False when it is damaged: the caller rebuilds the epochs from the data."""
        try:
            entries = [EpochEntry(int(e), int(s)) for e, s in read_entries(self._filesystem, self.path, fields=2)]
        except (CorruptCheckpointError, ValueError):
            self.entries = []
            return False
        self.entries = []
        for entry in entries:
            self._insert(entry)
        return True

    @property
    def latest_epoch(self) -> int:
        """UNDEFINED_EPOCH when there is none."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` have `epoch`; entries that contradict it go."""
        entries = self.entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        if epoch >= 0:
            self._insert(EpochEntry(epoch, start_offset))
            self.write()

    def assign_if_newer(self, epoch: int, start_offset: int) -> None:
        """Note an epoch found in the data, if it is larger than all that are known."""
        if epoch > self.latest_epoch:
            self.assign(epoch, start_offset)

    def _insert(self, entry: EpochEntry) -> None:
        entries = self.entries
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """The largest known epoch <= `epoch` and the offset where it ends; both undefined (-1) when nothing is known of it."""
        if epoch == UNDEFINED_EPOCH or not self.entries or epoch > self.latest_epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        floor = (
            epoch  # older than all that is kept: its records are gone, and the first kept epoch is where it ended at the latest
        )
        for entry in self.entries:
            if entry.epoch > epoch:
                return EpochEntry(floor, entry.start_offset)
            floor = entry.epoch
        raise AssertionError("the latest epoch is larger")

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that the record at `offset` was written in, or UNDEFINED_EPOCH."""
        found = UNDEFINED_EPOCH
        for entry in self.entries:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after `end_offset`."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before `start_offset`; the epoch in force there then begins there."""
        gone = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if (gone and gone[-1:] != [EpochEntry(gone[-1].epoch, start_offset)]) or len(gone) > 1:
            self.entries[: len(gone)] = [EpochEntry(gone[-1].epoch, start_offset)]
            self.write()

    def clear(self) -> None:
        """Forget everything."""
        self.entries = []
        self.write()

    def write(self) -> None:
        """Bring the entries into the file, not yet durable."""
        write_entries(self._filesystem, self.path, (f"{e} {s}" for e, s in self.entries), sync=False)
        self.is_dirty = True
