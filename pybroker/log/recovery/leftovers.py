"""Settles, at a start, the files that the last run left in a log's directory in the middle of a deletion or a
compaction.

    `.swap`      a complete compacted segment: it takes the place of all segments in its range of offsets. Without its data,
                 which is renamed first, it has already taken the place, and its indexes follow.
    `.cleaned`   an incomplete compacted segment; so are `.swap` files whose names sort after it (they are of a segment of
                 Kafka's that was to be split, or of a segment that was given up)
    `.deleted`   is removed. A transaction index that was renamed though its data was not gets its name back. It names
                 the aborted transactions of the data, and unlike the other indexes it cannot be rebuilt from this data alone.

After a power failure any part of the changes of names that were not made durable may have happened, and another power
failure may follow in the middle of this. So the directory is made durable between steps that must not be mixed.

Source: LogLoader.removeTempFilesAndCollectSwapFiles, completeSwapOperations of Kafka.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

from pybroker.log.files.names import offset_of
from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.indexes.transaction_index import TransactionIndex
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import (
    CLEANED_SUFFIX,
    DATA_SUFFIX,
    DELETED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from pybroker.model import Offset

if TYPE_CHECKING:
    from pybroker.log.log_state import LogState

logger = logging.getLogger(__name__)

TEMPORARY_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")
DAMAGED_SUFFIX: Final = ".damaged"


def settle(log: LogState) -> set[str]:
    """Leave only whole segments, whatever the last run was doing. Returns the names of the files. Blocks. Raises OSError."""
    files = _Files(log)
    if any(name.endswith((*TEMPORARY_SUFFIXES, SWAP_SUFFIX)) for name in files.names):
        _remove_indexes_of_deleted(files)
        _restore_transactions(log, files)
        _drop_unfinished(files)
        for name in files.ending_in(DATA_SUFFIX + SWAP_SUFFIX):
            _put_in_place(log, files, name)
        _put_indexes_in_place(log, files)
        files.sync()
        files.remove_all(files.ending_in(TRANSACTION_INDEX_SUFFIX + DELETED_SUFFIX))
        files.sync()  # the data's `.deleted` shows that such an index does not belong to other data of the same name
        files.remove_all(files.ending_in(*TEMPORARY_SUFFIXES))
    return files.names


def drop_unfinished(log: LogState) -> None:
    """Remove what compaction did not finish in this run. Blocks. Raises OSError."""
    files = _Files(log)
    _drop_unfinished(files)
    files.remove_all(files.ending_in(CLEANED_SUFFIX))


class _Files:
    """The names in a log's directory, and changes of them, which are durable after `sync`."""

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._is_dirty = False
        self.names = {entry.name for entry in log.filesystem.list(log.path) if entry.is_file()}

    def ending_in(self, *suffixes: str) -> list[str]:
        return sorted(name for name in self.names if name.endswith(suffixes))

    def remove_all(self, names: list[str]) -> None:
        for name in names:
            self._log.filesystem.remove(f"{self._log.path}/{name}")
            self.names.discard(name)
            self._is_dirty = True

    def rename(self, name: str, target: str) -> None:
        self._log.filesystem.rename(f"{self._log.path}/{name}", f"{self._log.path}/{target}")
        self.names.discard(name)
        self.names.add(target)
        self._is_dirty = True

    def sync(self) -> None:
        if self._is_dirty:
            self._log.filesystem.sync_directory(self._log.path)
            self._is_dirty = False


def _remove_indexes_of_deleted(files: _Files) -> None:
    """Remove indexes without data, which a crash between the renames of a deletion leaves: no segment is missing there.

    Call this before the deleted files are removed, because they show the deletion.
    """
    for name in files.ending_in(DATA_SUFFIX + DELETED_SUFFIX):
        stem = name.removesuffix(DATA_SUFFIX + DELETED_SUFFIX)
        if stem + DATA_SUFFIX not in files.names and stem + DATA_SUFFIX + SWAP_SUFFIX not in files.names:
            files.remove_all([index for index in (stem + OFFSET_INDEX_SUFFIX,) if index in files.names])


def _restore_transactions(log: LogState, files: _Files) -> None:
    for name in files.ending_in(TRANSACTION_INDEX_SUFFIX + DELETED_SUFFIX):
        index, stem = name.removesuffix(DELETED_SUFFIX), name.partition(".")[0]
        data = stem + DATA_SUFFIX
        if data in files.names and data + DELETED_SUFFIX not in files.names and index not in files.names:
            files.rename(name, index)
            with contextlib.suppress(CorruptDataError):  # the end of an active segment may be torn
                _end_and_aborts(log, stem)
    files.sync()


def _drop_unfinished(files: _Files) -> None:
    cleaned = min((offset_of(name) for name in files.ending_in(CLEANED_SUFFIX)), default=None)
    if cleaned is not None:
        files.remove_all([name for name in files.ending_in(SWAP_SUFFIX) if offset_of(name) >= cleaned])
        files.sync()  # the `.cleaned` file distinguishes them from complete ones


def _put_in_place(log: LogState, files: _Files, name: str) -> None:
    stem = name.partition(".")[0]
    first = offset_of(name)
    if _is_within_another(log, files, first):
        # A copy of the end of a segment (`cleaner/head`), which is still there and has all of it.
        files.remove_all([one for one in files.ending_in(SWAP_SUFFIX) if offset_of(one) == first])
        files.sync()
        return
    try:
        end = _end_and_aborts(log, stem, SWAP_SUFFIX)
    except CorruptDataError as error:
        logger.warning("A segment that compaction made is damaged: %s", error)
        if stem + DATA_SUFFIX in files.names:
            files.remove_all([one for one in files.ending_in(SWAP_SUFFIX) if one != name and offset_of(one) == first])
            files.sync()
            files.rename(name, name + DAMAGED_SUFFIX)
            logger.warning("%s keeps the old segment, and the damaged one as %s%s", log.topic_partition, name, DAMAGED_SUFFIX)
            return
        end = first + 1  # it replaces no other segment
    files.remove_all([one for one in files.ending_in(*SEGMENT_SUFFIXES) if first < offset_of(one) < end])
    files.sync()
    files.rename(name, name.removesuffix(SWAP_SUFFIX))


def _put_indexes_in_place(log: LogState, files: _Files) -> None:
    """Rename indexes whose data has its name; remove those of a copy of which a power failure has left no other name."""
    for first in sorted({offset_of(name) for name in files.ending_in(SWAP_SUFFIX)}):
        names = [name for name in files.ending_in(SWAP_SUFFIX) if offset_of(name) == first]
        if _is_within_another(log, files, first):
            files.remove_all(names)
            continue
        for name in names:
            files.rename(name, name.removesuffix(SWAP_SUFFIX))


def _is_within_another(log: LogState, files: _Files, first: int) -> bool:
    """Return whether the segment before the offset `first` reaches beyond it, so that it has the batch that begins there."""
    before = max((offset_of(one) for one in files.ending_in(DATA_SUFFIX) if 0 <= offset_of(one) < first), default=-1)
    if before < 0 or f"{first:020d}{DATA_SUFFIX}" in files.names:
        return False
    segment = LogSegment.open(log.filesystem, log.path, Offset(before), log.config)
    try:
        return any(batch.base_offset == first for _, batch in segment.scan(0))
    except CorruptDataError:
        return False
    finally:
        segment.release()


def _end_and_aborts(log: LogState, stem: str, suffix: str = "") -> int:
    """Return the offset after a segment's last batch.

    If its transaction index already has its name, or has it again, transactions whose markers are not in the data are
    removed: they belong to the segment that was there before. Raises CorruptDataError.
    """
    segment = LogSegment.open(log.filesystem, log.path, Offset(int(stem)), log.config, suffix=suffix)
    path = f"{log.path}/{stem}{TRANSACTION_INDEX_SUFFIX}"
    index = TransactionIndex(log.filesystem, path, segment.base_offset)
    end, marked = segment.base_offset, set()
    try:
        for _, batch in segment.scan(0):
            end = batch.next_offset
            if batch.is_control:
                marked.add(batch.last_offset)
    finally:
        segment.release()
    if log.filesystem.exists(path) and not log.filesystem.exists(path + SWAP_SUFFIX):
        with contextlib.suppress(CorruptIndexError):  # as it was before
            index.keep(marked)
    return end
