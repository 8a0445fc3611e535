"""The names of a segment's files, and how they change: `<base offset>`, a kind, and the file's next step.

    .log .index .timeindex .txnindex    the kinds: data, offset index, time index, transaction index (may be missing)
    (nothing)                           the segment's own
    .cleaned .swap                      a segment that compaction makes, as `cleaner/replace` describes
    .deleted                            to be removed when readers have had their time

Several files cannot be renamed at once. So the data decides what a segment is; `leftovers` settles the rest at the
next start.

Source: LogFileUtils, LogSegment.changeFileSuffixes.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from pybroker.log.indexes.offset_index import OffsetIndex
from pybroker.log.indexes.time_index import TimeIndex
from pybroker.log.indexes.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import Offset

DATA_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SEGMENT_SUFFIXES: Final = (DATA_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class SegmentFiles:
    """The files of one segment.

    Attributes:
        suffix: the part of the data file's name after `.log`.
    """

    __slots__ = ("_stem", "filesystem", "offset_index", "suffix", "time_index", "transaction_index")

    def __init__(
        self, filesystem: Filesystem, directory: str, base_offset: Offset, *, index_bytes_max: int, suffix: str = ""
    ) -> None:
        self.filesystem = filesystem
        self.suffix = suffix
        self._stem = stem = f"{directory}/{base_offset:020d}"
        self.offset_index = OffsetIndex(
            filesystem, f"{stem}{OFFSET_INDEX_SUFFIX}{suffix}", base_offset=base_offset, bytes_max=index_bytes_max
        )
        self.time_index = TimeIndex(
            filesystem, f"{stem}{TIME_INDEX_SUFFIX}{suffix}", base_offset=base_offset, bytes_max=index_bytes_max
        )
        self.transaction_index = TransactionIndex(filesystem, f"{stem}{TRANSACTION_INDEX_SUFFIX}{suffix}", base_offset)

    @property
    def path(self) -> str:
        """The path of the data file."""
        return self._stem + DATA_SUFFIX + self.suffix

    @property
    def paths(self) -> list[str]:
        """The paths of the data file, the offset, the time and the transaction index."""
        return [self.path, self.offset_index.path, self.time_index.path, self.transaction_index.path]

    def release(self) -> None:
        """Release the parts of the indexes that were read; they are read again when they are needed."""
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def change_suffix(self, suffix: str) -> None:
        """Rename the files; the data is last for `.swap`, which a start takes for complete, and otherwise first.

        After OSError some files have the new suffix, as their paths show; the same call continues there.
        """
        self.release()
        if suffix != SWAP_SUFFIX:
            self.change_data_suffix(suffix)
        for index, kind in (
            (self.transaction_index, TRANSACTION_INDEX_SUFFIX),
            (self.time_index, TIME_INDEX_SUFFIX),
            (self.offset_index, OFFSET_INDEX_SUFFIX),
        ):
            path = self._stem + kind + suffix
            if index.path != path:
                with contextlib.suppress(FileNotFoundError):
                    self.filesystem.rename(index.path, path)
                index.path = path
        self.change_data_suffix(suffix)

    def change_data_suffix(self, suffix: str) -> None:
        """Rename the data file alone, unless it has that name."""
        if self.suffix != suffix:
            self.release()
            self.filesystem.rename(self.path, self._stem + DATA_SUFFIX + suffix)
            self.suffix = suffix

    def mark_deleted(self) -> Callable[[], None]:
        """Rename the files so that no start finds them. Returns the work of removing them, for later.

        After OSError the segment is deleted if `suffix` is that of deleted files, and otherwise unchanged.
        """
        self.change_suffix(DELETED_SUFFIX)
        filesystem, (data, *indexes, transaction_index) = self.filesystem, self.paths

        def remove() -> None:
            if filesystem.exists(transaction_index):
                # Before the data: if the data is not deleted, a start renames this index back.
                filesystem.remove(transaction_index)
                with contextlib.suppress(FileNotFoundError):  # the log was deleted meanwhile
                    filesystem.sync_directory(data.rpartition("/")[0])
            for path in (data, *indexes):
                filesystem.remove(path)

        return remove
