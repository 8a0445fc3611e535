"""The only part of the log that touches the operating system's files, so that a test can replace it by a failing disk.

Every method raises the OSError of the system; `Log` and `LogManager` turn it into KAFKA_STORAGE_ERROR and take the
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

from pybroker import failures
from pybroker.log.files.open_files import OPEN_FILES
from pybroker.log.files.reserves import NO_ROOM, RESERVES

SHORTAGES: Final = failures.SHORTAGES
"""The errors of a system without free descriptors or maps: they are not the fault of a disk, and the operation may be
tried again.
"""
_LET_GO: Final = 8
_DESCRIPTOR_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_READ_WRITE: Final = os.O_RDWR | os.O_CREAT
_TEMPORARY_NUMBERS: Final = itertools.count(1)
_NEVER_ASKED: Final[set[int]] = set()
"""Descriptors whose file system cannot read without waiting, as tmpfs: to be refused again costs more than a read."""
WriteBuffer = bytes | bytearray | memoryview


class NotReplacedError(OSError):
    """A small file found no room for its new content. The file has its old content, so the operation may be tried again."""


def _open(path: str, flags: int) -> int:
    """Open a descriptor. If none is left, close some data files that are not in use, and try once more."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno not in _DESCRIPTOR_SHORTAGES or not OPEN_FILES.let_go(_LET_GO):
            raise
    return os.open(path, flags, 0o644)


class Filesystem:
    """The real file system. It has no state; a test subclasses it to fail or to write short.

    `is_concurrent`: whether several threads may use it at once; a subclass that counts operations does not allow
    that. `keeps_reserves`: whether `allocate` works, so that a directory can hold room for what must be written.

    Rules of faults put methods of their own into an object (`faults/disks.py`).
    """

    is_concurrent: ClassVar[bool] = True
    keeps_reserves: ClassVar[bool] = True

    # --- open files ---

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        """Open a file. Returns a descriptor, owned by the caller."""
        return _open(path, (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0))

    def close(self, fd: int) -> None:
        """Close the descriptor; maps of the file stay valid."""
        _NEVER_ASKED.discard(fd)
        os.close(fd)

    pwrite = staticmethod(os.pwrite)
    """`pwrite(fd, data, position)` returns the bytes written, which may be fewer than given."""

    def write_fully(self, fd: int, data: WriteBuffer, position: int) -> None:
        """Write all of `data` at `position`, continuing after short writes. Raises ENOSPC if the system takes nothing."""
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

    pread = staticmethod(os.pread)
    """`pread(fd, length, position)` returns at most `length` bytes from `position`; fewer only at the end of the file."""

    def is_resident(self, fd: int, position: int) -> bool:
        """Return whether the page at `position` can be read without waiting for the disk; True if the system does not know."""
        if not _NOWAIT or fd in _NEVER_ASKED:
            return True
        try:
            os.preadv(fd, [bytearray(1)], position, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}:
                _NEVER_ASKED.add(fd)
                return True
            raise
        return True

    def map(self, fd: int, length: int) -> mmap.mmap:
        """Map the first `length` (> 0) bytes read-only; they must exist for as long as any view of the map is used."""
        try:
            return mmap.mmap(fd, length, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise OSError(errno.EIO, f"the file does not have {length} bytes any more") from error

    def truncate(self, fd: int, size: int) -> None:
        """Cut the open file, but never below what a map of it shows: reading there would kill the process (SIGBUS)."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make the file's bytes durable. Blocks; releases the GIL."""
        os.fsync(fd)

    def size(self, fd: int) -> int:
        """Return the size of the open file in bytes."""
        return os.fstat(fd).st_size

    # --- by path ---

    def boot_id(self) -> bytes:
        """Return a name of this machine's present boot, empty where it has none. What the processes of this boot have written is
        there, also if they were killed.
        """
        try:
            return self.read_file("/proc/sys/kernel/random/boot_id").strip()
        except OSError:
            return b""

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that name. A disk that fails raises OSError."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def file_size(self, path: str) -> int:
        """Return the size of the file in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return when the file was last written, in ms since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        """Set the time at which the file was last written."""
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def volume_space(self, path: str) -> tuple[int, int]:
        """Return the bytes of the volume that `path` is on: all of them, and those that this process may still use."""
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def list(self, path: str) -> list[os.DirEntry[str]]:
        """Return the entries of a directory, sorted by name."""
        try:
            entries = os.scandir(path)
        except OSError as error:
            if error.errno not in _DESCRIPTOR_SHORTAGES or not OPEN_FILES.let_go(_LET_GO):
                raise
            entries = os.scandir(path)
        with entries:
            return sorted(entries, key=lambda entry: entry.name)

    def make_directory(self, path: str) -> None:
        """Make the directory and those above it that are missing."""
        os.makedirs(path, exist_ok=True)

    def create_empty(self, path: str) -> None:
        """Make the file with no bytes in it; its old content is lost."""
        os.close(_open(path, _READ_WRITE | os.O_TRUNC))

    def create_new(self, path: str) -> None:
        """Make the file with no bytes in it. Raises FileExistsError if there is a file with any, which is not touched."""
        fd = self.open(path, writable=True, create=True)
        try:
            if self.size(fd):
                raise FileExistsError(errno.EEXIST, "the new file exists and is not empty", path)
        finally:
            self.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename atomically; a file at `target` is replaced."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove the file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove the directory with everything in it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def read_file(self, path: str) -> bytes:
        """Return the content of the file."""
        fd = _open(path, os.O_RDONLY)
        try:
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)

    def allocate(self, path: str, size: int) -> None:
        """Allocate at least `size` bytes to the file, with room on the volume behind each."""
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
        """Write a whole file in place. If there is no room, release the directory's reserve, and try once more."""
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

        With `sync` this holds after a crash of the machine too; without it, after a crash of the process. Raises
        NotReplacedError for want of room.
        """
        temporary = f"{path}.{next(_TEMPORARY_NUMBERS)}.tmp"  # a name of its own, because two threads may replace the same file
        try:
            self.write_file(temporary, data, sync=sync)
            self.rename(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            if error.errno in NO_ROOM:
                raise NotReplacedError(error.errno, error.strerror, path) from error
            raise
        if sync:
            self.sync_directory(os.path.dirname(path))

    def sync_path(self, path: str) -> None:
        """Make a file durable that is not open here."""
        fd = _open(path, os.O_RDONLY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names durable that were made, renamed or removed in the directory."""
        fd = _open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> int:
        """Take the file's exclusive lock until the descriptor is closed or the process dies.

        Both kinds of locks are taken: `flock` keeps out this broker, also of the same process, and `lockf` a Java broker.
        Raises BlockingIOError if another process holds it.
        """
        fd = _open(path, _READ_WRITE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd
