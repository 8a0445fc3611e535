"""A segment's data file, and slices of it that a response sends.

Idea
    A slice (`FileRecords`) copies nothing when it is made. When the socket can take bytes, large pieces are views into a map of
    the file, and small pieces come from `pread`. A growing file is mapped only up to a multiple of 16 MB, and again when it has
    grown past the next one. So a fetch near the end costs no new map; bytes beyond the map are read.

Lifetime
    A slice holds its `SegmentFile`, and a view holds its map. So both stay readable after the segment was deleted,
    renamed or closed: the descriptor is closed with the last slice.

Truncation
    A file must not shrink below what a map shows (touching such a view kills the process). `SegmentFile.truncate`
    therefore cuts in place only what was never mapped, and otherwise copies the kept bytes to a new file of the same
    name; views still see the old one.

    A segment may close its file and open it again: then the new object knows by `shown` what views of the old object
    may show.

Shortages
    If the system gives no map (no descriptor, no memory, too many maps), the bytes are read instead.

Source: org.apache.kafka.common.record.FileRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.file_end import HOT_TAIL, FileEnd, FileSlice
from pybroker.log.files.filesystem import SHORTAGES
from pybroker.log.files.open_files import OPEN_FILES
from pybroker.protocol.parts import SendPart

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Sequence

    from pybroker.log.files.filesystem import Filesystem

MAP_STEP: Final = 16 << 20  # a growing file is mapped in steps of this many bytes
MAP_THRESHOLD: Final = 32 << 10  # pieces below this are read: a copy of 32 kB costs less than two page faults
PROBE_STEP: Final = 128 << 10  # Linux reads ahead in such windows, so one page of each stands for all
LOOKED_AT: Final = 8 << 10  # a lookup has read the first headers, and the system reads no further ahead of such a read
PROBE_BYTES_MAX: Final = 1 << 20  # as much as a sender pulls at once
COPY_CHUNK: Final = 1 << 20


class SegmentFile(FileEnd):
    """One open data file. Owns its descriptor, which is closed when nothing refers to the object any more."""

    __slots__ = ("_map", "mapped", "shown")

    def __init__(
        self, filesystem: Filesystem, path: str, *, create: bool = False, is_growing: bool = False, shown: int = 0
    ) -> None:
        self.filesystem = filesystem
        self._pread, self._pwrite = filesystem.pread, filesystem.pwrite
        self.path = path
        self.fd = -1
        self.fd = filesystem.open(path, writable=True, create=create)
        OPEN_FILES.opened(self.fd)
        self.size = 0 if create else filesystem.size(self.fd)
        self.shown = shown  # bytes that views of an earlier object may show
        self.is_growing = is_growing
        self.mapped = 0
        self._map: mmap.mmap | None = None

    def __del__(self) -> None:
        if self.fd >= 0:
            OPEN_FILES.closing(self.fd)
            self.filesystem.close(self.fd)

    def view(self, length: int, position: int) -> memoryview | bytes:
        """Return up to `length` (> 0) bytes, at least one: a view of the map as far as it reaches, otherwise a copy."""
        end = position + length
        if length < MAP_THRESHOLD:
            return self.pread(length, position)
        if end > self.mapped:
            self._map_more()
        available = self.mapped - position
        if available < MAP_THRESHOLD:
            return self.pread(length, position)
        assert self._map is not None
        return memoryview(self._map)[position : position + min(length, available)]

    def _map_more(self) -> None:
        target = self.size - self.size % MAP_STEP if self.is_growing else self.size
        if target > self.mapped and OPEN_FILES.may_map:
            try:
                self._map = self.filesystem.map(self.fd, target)
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                return
            OPEN_FILES.mapped(self.fd)
            self.mapped = target

    def coldness(self, length: int, position: int) -> Callable[[], None] | None:
        """Return what to run in a thread before the range is read, or None if the page cache has it."""
        length = min(length, PROBE_BYTES_MAX)
        end = position + length
        if self.is_growing and position >= self.size - HOT_TAIL:
            return None
        is_resident = self.filesystem.is_resident
        if not is_resident(self.fd, min(position + LOOKED_AT, end - 1)):
            return lambda: self._warm(position, end)
        for probe in range(position, end, PROBE_STEP):
            if not is_resident(self.fd, probe):
                return lambda: self._warm(probe, end)
        if not is_resident(self.fd, end - 1):
            return lambda: self._warm(end - 1, end)
        return None

    def _warm(self, position: int, end: int) -> None:
        while position < end:
            self.filesystem.pread(self.fd, min(PROBE_STEP, end - position), position)
            position += PROBE_STEP

    def truncate(self, size: int) -> SegmentFile:
        """Return the file cut to `size`: this object, or a new one if views of this may exist. Use only the result."""
        if size >= self.size:
            return self
        if size >= max(self.mapped, self.shown):
            self.filesystem.truncate(self.fd, size)
            self.size = size
            return self
        temporary = self.path + ".truncated.tmp"
        copy = SegmentFile(self.filesystem, temporary, create=True, is_growing=self.is_growing)
        self.filesystem.truncate(copy.fd, 0)
        while copy.size < size:
            copy.append(self.pread(min(COPY_CHUNK, size - copy.size), copy.size))
        self.filesystem.sync(copy.fd)
        self.filesystem.rename(temporary, self.path)
        copy.path = self.path
        return copy

    def sync(self) -> None:
        """Make the bytes durable. Blocks."""
        self.filesystem.sync(self.fd)


class FileRecords(FileSlice, SendPart):
    """The `size` bytes of a data file from `position`: a part of a response, and a source of batches for conversion.

    `pull` and `read` raise OSError if the disk fails or the log was truncated below the slice; the connection is then
    closed.
    """

    __slots__ = ()

    file: SegmentFile

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """Return the next bytes, at most `bytes_max` (> 0); the views keep their map alive."""
        remaining = self.size - self.sent
        if remaining <= 0:
            return ()
        piece = self.file.view(min(remaining, bytes_max), self.position + self.sent)
        self.sent += len(piece)
        return (piece,)

    def cold(self) -> Callable[[], None] | None:
        """Return a function that reads the next bytes from the disk, or None if they are in memory."""
        remaining = self.size - self.sent
        if remaining <= 0:
            return None
        return self.file.coldness(remaining, self.position + self.sent)

    def read(self, position: int, length: int) -> bytes:
        """Return a copy of at most `length` bytes from `position` of the slice; safe to parse, unlike the views of `pull`."""
        length = min(length, self.size - position)
        return self.file.pread(length, self.position + position) if length > 0 else b""

    def slice(self, position: int, size: int) -> FileRecords:
        """Return a part of this slice, unsent; cut at its end."""
        size = min(size, self.size - position)
        assert position >= 0
        assert size >= 0
        return FileRecords(self.file, self.position + position, size)

    def widened(self, size: int) -> FileRecords:
        """Return a slice of `size` bytes from where this one starts, unsent. The caller knows that the file has them."""
        return FileRecords(self.file, self.position, size)

    def close(self) -> None:
        """Do nothing: a slice holds only memory."""
