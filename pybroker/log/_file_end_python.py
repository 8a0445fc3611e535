# cython: annotation_typing=False
"""The end of a segment's data file in Python; `_file_end_native` is this same text, compiled with the types of
`_file_end_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
`file_records.py` has what else a data file can do.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pybroker.log.files.filesystem import Filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.files.filesystem import WriteBuffer

__all__ = ["FileEnd"]

SYSTEM_PWRITE = Filesystem.pwrite  # a test's own `Filesystem` has another


class FileEnd:
    """The state that an append reads and changes of a data file. `SegmentFile` has the rest, and sets all of it.

    `fd` is the descriptor, `size` the bytes that were written, `_pwrite` the `pwrite` of `filesystem`.
    """

    __slots__ = ("_pwrite", "fd", "filesystem", "size")

    _pwrite: Callable[[int, WriteBuffer, int], int]
    fd: int
    filesystem: Filesystem
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

    def _cut_torn_bytes(self, size: int) -> None:
        try:
            self.filesystem.truncate(self.fd, size)
        except OSError:  # the first error is reported; recovery cuts the rest
            return
