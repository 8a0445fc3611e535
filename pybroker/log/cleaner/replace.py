"""Puts a new segment in the place of its sources, so that whatever interrupts it, the next start has either the old or
the new.

    .cleaned   being written; a start removes it, and with it every `.swap` whose name does not sort before it
    .swap      complete and durable; a start puts it in the place of all segments in its range of offsets
    .deleted   an old segment; readers that have a slice of it may finish

A power failure may keep any of the names that were changed since the directory was last made durable. So it is made
durable between the steps, and each of them is sound for any part of the next:

    1. the new segment, durable, gets the name `.swap`, its data last            a start drops it, or does the rest
    2. it serves readers under that name, and the old ones are named `.deleted`  a start removes the rest of those
    3. it gets its name                                                          a start renames the rest

From step 2 on the new segment is the only complete one, and no failure removes it. A failure of the disk leaves the
rest to the next start. After a temporary failure (out of descriptors) the steps continue where they ended.

The old segments may be deleted when the new one is ready, by retention or because the log was shortened: then the new
one is dropped.

Source: UnifiedLog.replaceSegments, which has step 1 to 3 without anything between them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pybroker.log.indexes.entry_file import CorruptIndexError
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.segment_files import CLEANED_SUFFIX, SWAP_SUFFIX
from pybroker.records.errors import CorruptRecordError
from pybroker.sharing.work import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pybroker.log.log_state import LogState
    from pybroker.log.segments.segment import LogSegment
    from pybroker.sharing.work import Work


class SegmentsChangedError(Exception):
    """The segments that were read for a new segment are no longer those of the log."""


def replace(log: LogState, olds: Sequence[LogSegment], new: LogSegment, *, truncations: int) -> Work[None]:
    """Put `new`, written and with the suffix `.cleaned`, in the place of `olds`.

    `truncations` is the log's number when its keys were first read: records that were dropped since then may have had
    the newer values.

    Raises SegmentsChangedError and OSError. After them `log.replacement` is to be continued, or `new` to be
    discarded.
    """
    _check(log, olds, truncations)  # the files of old ones may be gone
    log.filesystem.set_modified_ms(new.path, olds[-1].modified_ms)
    yield from in_thread(log.log_directory.run_in_thread, _sync_all(log, new))
    _check(log, olds, truncations)
    new.change_suffix(SWAP_SUFFIX)
    due_ms = log.services.clock.monotonic_ms() + log.config.file_delete_delay_ms
    replacement = log.replacement = Replacement(log, olds, new, due_ms=due_ms)
    yield from replacement.sync_directory()
    if log.replacement is not replacement:
        raise _changed(log)
    _check(log, olds, truncations)
    replacement.serve()
    yield from replacement.finish()


def _sync_all(log: LogState, new: LogSegment) -> Callable[[], None]:
    """Return what makes the new segment durable, and the leader epochs: the batch that shows where an epoch began may be
    removed.
    """
    if log.epochs.is_behind:
        log.epochs.write()
    sync_segment, filesystem, epochs_path = new.sync_work(), log.filesystem, log.epochs.path

    def sync() -> None:
        sync_segment()
        with contextlib.suppress(FileNotFoundError):  # there are no epochs, or the log was deleted meanwhile
            filesystem.sync_path(epochs_path)

    return sync


def discard(log: LogState, new: LogSegment) -> None:
    """Remove a new segment that does not serve, in such an order that no start takes a part of it for complete. Blocks."""
    filesystem = log.filesystem
    if new.suffix == SWAP_SUFFIX:
        new.change_data_suffix(CLEANED_SUFFIX)
        filesystem.sync_directory(log.path)
    data, *indexes = new.paths
    for path in indexes:
        filesystem.remove(path)
    if any(path.endswith(SWAP_SUFFIX) for path in indexes):
        filesystem.sync_directory(log.path)
    filesystem.remove(data)


class Replacement:
    """A complete segment that takes, or is about to take, the place of others: `Log.replacement`. Belongs to the loop."""

    __slots__ = ("_due_ms", "_log", "_new", "_olds", "is_serving")

    def __init__(self, log: LogState, olds: Sequence[LogSegment], new: LogSegment, *, due_ms: int) -> None:
        self._log = log
        self._olds = list(olds)
        self._new = new
        self._due_ms = due_ms
        self.is_serving = False

    def sync_directory(self) -> Work[None]:
        """Make the names durable."""
        log = self._log
        yield from in_thread(log.log_directory.run_in_thread, lambda: log.filesystem.sync_directory(log.path))

    def serve(self) -> None:
        """Let the log's readers find the new segment, and no longer the old ones."""
        for old in self._olds:
            self._log.segments.remove(old)
        self._log.segments.add(self._new)
        self.is_serving = True

    def finish(self) -> Work[None]:
        """Give all files their final names. After OSError it may be called again."""
        log = self._log
        self._delete_olds()
        yield from self.sync_directory()
        if log.replacement is self:
            self._new.change_suffix("")
            yield from self.sync_directory()
        if log.replacement is self:
            log.replacement = None

    def settle(self) -> None:
        """End the replacement now, in either way, because segments of the log are about to be deleted. Raises OSError."""
        if self.is_serving:
            self._delete_olds()
            self._new.change_suffix("")
        else:
            self._new.change_data_suffix(CLEANED_SUFFIX)  # as if the segment had never been complete
        self._log.replacement = None

    def _delete_olds(self) -> None:
        """Rename the old segments to `.deleted`, the oldest first."""
        log, olds = self._log, self._olds
        while olds:
            log.log_directory.remove_later(self._due_ms, olds[0].mark_deleted())
            if olds[0].base_offset != self._new.base_offset:
                log.producers.delete_snapshot(olds[0].base_offset)
            del olds[0]


def has_changed(log: LogState, read: Sequence[LogSegment], truncations: int) -> bool:
    """Return whether any of these neighbours is no longer a segment of the log, or the log's end was dropped."""
    if truncations != log.truncations:
        return True
    first = log.segments.floor_index(read[0].base_offset) if read else 0
    return first < 0 or list(log.segments)[first : first + len(read)] != list(read)


@contextlib.contextmanager
def unless_changed(log: LogState, read: Sequence[LogSegment], truncations: int) -> Iterator[None]:
    """Raise SegmentsChangedError for what reading raises if the segments are no longer the log's: their files may be gone."""
    try:
        yield
    except (CorruptRecordError, CorruptDataError, CorruptIndexError, FileNotFoundError) as error:
        if has_changed(log, read, truncations):
            raise _changed(log) from error
        raise


def _check(log: LogState, olds: Sequence[LogSegment], truncations: int) -> None:
    log.check_usable()
    if has_changed(log, olds, truncations):
        raise _changed(log)
    if olds[-1] is log.segments.active:  # what was appended since it was read would be lost
        raise SegmentsChangedError(f"{log.topic_partition} appends to the segment {olds[-1].path}")


def _changed(log: LogState) -> SegmentsChangedError:
    return SegmentsChangedError(f"{log.topic_partition} was shortened meanwhile")
