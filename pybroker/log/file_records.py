"""A segment's data file, and slices of it that a response sends.

Idea
    A slice (`FileRecords`) copies nothing when it is made. When the socket can take bytes, large pieces come as views into a map
    of the file and small ones from `pread`. A growing file is mapped only up to a multiple of 16 MB and mapped again when it has
    grown past the next one, so a fetch near the end costs no new map; what lies beyond the map is read.

Lifetime
    A slice holds its `SegmentFile`, a view holds its map. So both stay readable after the segment was deleted, renamed or
    closed: the descriptor goes when the last slice has gone.

Truncation
    A file must not shrink below what a map shows (touching such a view kills the process). `SegmentFile.truncate` therefore cuts
    in place only what was never mapped, and else copies the kept bytes to a new file of the same name; views keep seeing the old
    one.

    A segment may let go of its file and open it again: then the new object knows by `shown` what views of the old one may show.

Shortages
    Where the system gives no map (no descriptor, no memory, too many maps), the bytes are read instead.

Source: org.apache.kafka.common.record.FileRecords.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from pybroker.log.filesystem import SHORTAGES
from pybroker.log.open_files import OPEN_FILES
from pybroker.protocol.parts import SendPart

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Sequence

    from pybroker.log.filesystem import Filesystem, WriteBuffer

MAP_STEP: Final = 16 << 20  # a growing file is mapped in steps of this many bytes
MAP_THRESHOLD: Final = 32 << 10  # pieces below this are read: a copy of 32 kB costs less than two page faults
PROBE_STEP: Final = 128 << 10  # Linux reads ahead in such windows, so one page of each tells for all
PROBE_BYTES_MAX: Final = 1 << 20  # what a sender pulls at once
HOT_TAIL: Final = 8 << 20  # the youngest bytes of a growing file are in the page cache: we have just written them
COPY_CHUNK: Final = 1 << 20


class FileTooShortError(OSError):
    """The file has become shorter than the bytes that were promised of it: somebody else has cut it."""


class SegmentFile:
    """One open data file. Owns its descriptor, which is closed when nobody refers to the object any more."""

    __slots__ = ("_map", "_pwrite", "fd", "filesystem", "is_growing", "mapped", "path", "shown", "size")

    def __init__(
        self, filesystem: Filesystem, path: str, *, create: bool = False, is_growing: bool = False, shown: int = 0
    ) -> None:
        self.filesystem = filesystem
        self._pwrite = filesystem.pwrite
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

    def append(self, data: WriteBuffer) -> None:
        """Write at the end. After OSError the file's end is where it was, as far as the system still allows that."""
        size = self.size
        end = size + len(data)
        try:
            written_end = size + self._pwrite(self.fd, data, size)
            if written_end < end:
                self.filesystem.write_fully(self.fd, memoryview(data)[written_end - size :], written_end)
        except OSError:
            self._cut_torn_bytes(size)
            raise
        self.size = end

    def _cut_torn_bytes(self, size: int) -> None:
        try:
            self.filesystem.truncate(self.fd, size)
        except OSError:  # the first error is the one to report; recovery cuts what is left
            return

    def pread(self, length: int, position: int) -> bytes:
        """Exactly `length` bytes. Raises FileTooShortError when the file has become shorter than that; OSError."""
        data = self.filesystem.pread(self.fd, length, position)
        while len(data) < length:
            more = self.filesystem.pread(self.fd, length - len(data), position + len(data))
            if not more:
                raise FileTooShortError(errno.EIO, "the file is shorter than it was", self.path)
            data += more
        return data

    def view(self, length: int, position: int) -> memoryview | bytes:
        """Up to `length` (> 0) bytes, at least one: a view of the map where it reaches, else a copy."""
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
        """What to run in a thread before reading the range, or None when the page cache has it."""
        length = min(length, PROBE_BYTES_MAX)
        end = position + length
        if self.is_growing and position >= self.size - HOT_TAIL:
            return None
        is_resident = self.filesystem.is_resident
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
        """The file cut to `size`: this object, or a new one when views of this may be out. Use the result only."""
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


class FileRecords(SendPart):
    """`size` bytes of a data file from `position`: a part of a response, and a source of batches for conversion.

    Raises OSError from `pull` and `read` when the disk fails or the log was truncated below the slice; the connection dies then.
    """

    __slots__ = ("_sent", "file", "position", "size")

    def __init__(self, file: SegmentFile, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self._sent = 0

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """The next bytes, at most `bytes_max` (> 0); the views keep their map alive."""
        remaining = self.size - self._sent
        if remaining <= 0:
            return ()
        piece = self.file.view(min(remaining, bytes_max), self.position + self._sent)
        self._sent += len(piece)
        return (piece,)

    def cold(self) -> Callable[[], None] | None:
        """A function that reads the next bytes from the disk, when they are not in memory."""
        remaining = self.size - self._sent
        if remaining <= 0:
            return None
        return self.file.coldness(remaining, self.position + self._sent)

    def read(self, position: int, length: int) -> bytes:
        """A copy of at most `length` bytes from `position` of the slice; to be looked into, unlike what `pull` gives."""
        length = min(length, self.size - position)
        return self.file.pread(length, self.position + position) if length > 0 else b""

    def copied(self, bytes_max: int) -> bytes | None:
        """All of the slice, unsent, if it is no larger than `bytes_max` and in memory; else None, and it is sent as a part."""
        size, file = self.size, self.file
        is_young = file.is_growing and self.position >= file.size - HOT_TAIL
        if size > bytes_max or (not is_young and file.coldness(size, self.position) is not None):
            return None
        try:
            data = file.filesystem.pread(file.fd, size, self.position)
            return data if len(data) == size else file.pread(size, self.position)
        except OSError:
            return None  # it will fail the same when it is sent, and end the connection as it should

    def slice(self, position: int, size: int) -> FileRecords:
        """A part of this slice, unsent; cut at its end."""
        size = min(size, self.size - position)
        assert position >= 0
        assert size >= 0
        return FileRecords(self.file, self.position + position, size)

    def widened(self, size: int) -> FileRecords:
        """A slice of `size` bytes from where this one starts, unsent. The caller knows that the file has them."""
        return FileRecords(self.file, self.position, size)

    def close(self) -> None:
        """Nothing is held but memory."""
