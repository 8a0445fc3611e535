"""The only place of the log that touches the operating system's files, so that a test can put a failing disk in its stead.

Every method raises OSError as the system gave it; `Log` and `LogManager` turn that into KAFKA_STORAGE_ERROR and take the
directory offline. Paths are strings: building `pathlib.Path` objects costs more than the calls they are for.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import mmap
import os
import shutil
from typing import ClassVar, Final

from pybroker.log.open_files import OPEN_FILES
from pybroker.log.reserves import NO_ROOM, RESERVES

SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""What the system says when it has no descriptors or maps left: no fault of a disk, and what failed may be tried again."""
_LET_GO: Final = 8
_DESCRIPTOR_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_READ_WRITE: Final = os.O_RDWR | os.O_CREAT
_TEMPORARY_NUMBERS: Final = itertools.count(1)
WriteBuffer = bytes | bytearray | memoryview


def _open(path: str, flags: int) -> int:
    """A descriptor. Where there is none left, some data files are closed that are not in use, and it is tried once more."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno not in _DESCRIPTOR_SHORTAGES or not OPEN_FILES.let_go(_LET_GO):
            raise
    return os.open(path, flags, 0o644)


class Filesystem:
    """The real one. Stateless; a test subclasses it to fail or to write short.

    `is_concurrent`: whether several threads may use it at once, which one that counts operations does without.
    `keeps_reserves`: whether `allocate` works, so that a directory can hold room for what must be written.
    """

    __slots__ = ()
    is_concurrent: ClassVar[bool] = True
    keeps_reserves: ClassVar[bool] = True

    # --- open files ---

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        """A file descriptor, owned by the caller."""
        return _open(path, (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0))

    def close(self, fd: int) -> None:
        """Give the descriptor back; maps of the file stay valid."""
        os.close(fd)

    pwrite = staticmethod(os.pwrite)
    """`pwrite(fd, data, position)`: bytes written, which may be fewer than given."""

    def write_fully(self, fd: int, data: WriteBuffer, position: int) -> None:
        """Write all of `data` at `position`; goes on after a short write. Raises ENOSPC when the system takes nothing."""
        length = len(data)
        written = self.pwrite(fd, data, position)
        if written == length:
            return
        view = memoryview(data)
        while written < length:
            count = self.pwrite(fd, view[written:], position + written)
            if count <= 0:
                raise OSError(errno.ENOSPC, "the file system took no bytes")
            written += count

    def pread(self, fd: int, length: int, position: int) -> bytes:
        """At most `length` bytes from `position`; fewer only at the end of the file."""
        return os.pread(fd, length, position)

    def is_resident(self, fd: int, position: int) -> bool:
        """Whether the page at `position` can be read without waiting for the disk; True where the system cannot tell."""
        if not _NOWAIT:
            return True
        try:
            os.preadv(fd, [bytearray(1)], position, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
                return True
            raise
        return True

    def map(self, fd: int, length: int) -> mmap.mmap:
        """A read-only view of the first `length` (> 0) bytes, which must exist for as long as anyone looks at it."""
        try:
            return mmap.mmap(fd, length, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise OSError(errno.EIO, f"the file has no {length} bytes any more") from error

    def truncate(self, fd: int, size: int) -> None:
        """Cut the open file. Never below what a map of it shows: looking there would kill the process (SIGBUS)."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make the file's bytes durable. Blocks; releases the GIL."""
        os.fsync(fd)

    def size(self, fd: int) -> int:
        """Bytes in the open file."""
        return os.fstat(fd).st_size

    # --- by path ---

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of that name. A disk that cannot tell is an OSError: it is no answer."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: str) -> int:
        """Bytes in the file."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in ms since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Say when the file was last written."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def volume_space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that `path` lies on: all of them, and those that this process may still use."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def list(self, path: str) -> list[os.DirEntry[str]]:
        """The entries of a directory, sorted by name."""
        try:
            entries = os.scandir(path)
        except OSError as error:
            if error.errno not in _DESCRIPTOR_SHORTAGES or not OPEN_FILES.let_go(_LET_GO):
                raise
            entries = os.scandir(path)
        with entries:
            return sorted(entries, key=lambda entry: entry.name)

    def make_directory(self, path: str) -> None:
        """Make the directory and those above it, where missing."""
        os.makedirs(path, exist_ok=True)

    def create_empty(self, path: str) -> None:
        """Make the file with no bytes in it; what it held is gone."""
        os.close(_open(path, _READ_WRITE | os.O_TRUNC))

    def create_new(self, path: str) -> None:
        """Make the file with no bytes in it. Raises FileExistsError where there is one that has any: it is not touched."""
        fd = self.open(path, writable=True, create=True)
        try:
            if self.size(fd):
                raise FileExistsError(errno.EEXIST, "the new file exists and is not empty", path)
        finally:
            self.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Atomically; what was at `target` is gone."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove the file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove the directory with all that is in it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def read_file(self, path: str) -> bytes:
        """The whole file."""
        fd = _open(path, os.O_RDONLY)
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)

    def allocate(self, path: str, size: int) -> None:
        """Let the file have at least that many bytes, with room on the volume behind each."""
        fd = _open(path, _READ_WRITE)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size)
                return
            present = os.fstat(fd).st_size
            while present < size:
                present += os.pwrite(fd, bytes(min(size - present, 1 << 20)), present)
        finally:
            os.close(fd)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Write a whole file in place. Where there is no room, the directory's reserve is given up, and it is tried once more."""
        try:
            self._write_file(path, data, sync=sync)
        except OSError as error:
            if error.errno not in NO_ROOM or not RESERVES.release_for(path):
                raise
            self._write_file(path, data, sync=sync)

    def _write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        fd = _open(path, _READ_WRITE | os.O_TRUNC)
        try:
            self.write_fully(fd, data, 0)
            if sync:
                self.sync(fd)
        finally:
            os.close(fd)

    def replace_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Replace a whole file so that a crash leaves the old or the new one: temporary file, rename, and the directory.

        `sync` makes it hold against a crash of the machine too; without it, against one of the process.
        """
        temporary = f"{path}.{next(_TEMPORARY_NUMBERS)}.tmp"  # of its own, since two threads may replace the same file
        try:
            self.write_file(temporary, data, sync=sync)
            self.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        if sync:
            self.sync_directory(os.path.dirname(path))

    def sync_path(self, path: str) -> None:
        """Make a file durable that nobody has open."""
        fd = _open(path, os.O_RDONLY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def sync_directory(self, path: str) -> None:
        """Make names made, renamed or removed in the directory durable."""
        fd = _open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        """Take the file's exclusive lock until the descriptor is closed or the process dies.

        Raises BlockingIOError when it is held.
        """
        fd = _open(path, _READ_WRITE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd
