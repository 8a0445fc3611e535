# cython: annotation_typing=False
"""A segment's data file as requests use it, in Python: appends at its end, and small slices of it. `_file_end_native` is this
same text, compiled with the types of `_file_end_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
`file_records.py` has what else a data file can do.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pybroker.log.files.filesystem import Filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.files.filesystem import WriteBuffer

__all__ = ["FileEnd", "FileSlice", "FileTooShortError"]

SYSTEM_PREAD, SYSTEM_PWRITE = Filesystem.pread, Filesystem.pwrite  # a test's own `Filesystem` has others
HOT_TAIL = 8 << 20  # the last bytes of a growing file were just written, so they are in the page cache


class FileTooShortError(OSError):
    """The file has become shorter than the bytes that were promised of it: another program has cut it."""


class FileEnd:
    """The state of a data file that requests read and change. `SegmentFile` has the rest, and sets all of it.

    `fd` is the descriptor, `size` the bytes that were written, `is_growing` whether appends follow; `_pread` and `_pwrite` are
    those of `filesystem`.
    """

    __slots__ = ("_pread", "_pwrite", "fd", "filesystem", "is_growing", "path", "size")

    _pread: Callable[[int, int, int], bytes]
    _pwrite: Callable[[int, WriteBuffer, int], int]
    fd: int
    filesystem: Filesystem
    is_growing: bool
    path: str
    size: int

    def append(self, data: WriteBuffer) -> None:
        """Write at the end. After OSError the file's end is where it was, as far as the system still allows that."""
        size = self.size
        end = size + len(data)
        try:
            if self._pwrite is SYSTEM_PWRITE:
                written_end = size + os.pwrite(self.fd, data, size)
            else:
                written_end = size + self._pwrite(self.fd, data, size)
            if written_end < end:
                self.filesystem.write_fully(self.fd, memoryview(data)[written_end - size :], written_end)
        except OSError:
            self._cut_torn_bytes(size)
            raise
        self.size = end

    def pread(self, length: int, position: int) -> bytes:
        """Read exactly `length` bytes. Raises FileTooShortError if the file has become shorter than that; OSError."""
        data = os.pread(self.fd, length, position) if self._pread is SYSTEM_PREAD else self._pread(self.fd, length, position)
        return data if len(data) == length else self._read_on(data, length, position)

    def _read_on(self, data: bytes, length: int, position: int) -> bytes:
        """Return what `pread` returns, of which the first read gave only `data`."""
        while len(data) < length:
            more = self._pread(self.fd, length - len(data), position + len(data))
            if not more:
                raise FileTooShortError(errno.EIO, "the file is shorter than it was", self.path)
            data += more
        return data

    def coldness(self, length: int, position: int) -> Callable[[], None] | None:
        """Return what to run in a thread before the range is read, or None if the page cache has it."""
        raise NotImplementedError

    def _cut_torn_bytes(self, size: int) -> None:
        try:
            self.filesystem.truncate(self.fd, size)
        except OSError:  # the first error is reported; recovery cuts the rest
            return


class FileSlice:
    """The `size` bytes of a data file from `position`, of which `sent` were pulled. `FileRecords` has the rest."""

    __slots__ = ("file", "position", "sent", "size")

    def __init__(self, file: FileEnd, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.sent = 0

    def copied(self, bytes_max: int) -> bytes | None:
        """Return the whole slice, unsent, if it is in memory and at most `bytes_max` long; None means that it is sent as
        a part.
        """
        size, file = self.size, self.file
        if size > bytes_max:
            return None
        is_young = file.is_growing and self.position >= file.size - HOT_TAIL
        if not is_young and file.coldness(size, self.position) is not None:
            return None
        try:
            return file.pread(size, self.position)
        except OSError:
            return None  # the sender meets the same error, and closes the connection as it should
