"""Real file systems that are full or fail, in a mount namespace that only its own processes see and that ends with them."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from testing.hosts.holder import MOUNTED, held
from testing.waiting import WAIT_S

TMPFS = "mount -t tmpfs -o size={size} tmpfs '{path}'"
EXT4 = """
mkdir -p '{path}.device' && mount -t tmpfs -o size={size} tmpfs '{path}.device' &&
truncate -s 40m '{path}.device/image' && mkfs.ext4 -q -F '{path}.device/image' && mount -o loop '{path}.device/image' '{path}'
"""


class SmallDisk:
    """A file system at `path`, the path that processes see `inside`; `seen` is the same directory from outside."""

    def __init__(self, path: Path, holder: int, *, is_device: bool) -> None:
        self.path, self._holder = path, holder
        self.seen = Path(f"/proc/{holder}/root{path}")
        self._is_device = is_device
        self._filled = Path(f"{self.seen}.device") if is_device else self.seen

    def inside(self) -> str:
        """Return the broker's command line inside, for PYBROKER_TEST_COMMAND."""
        enter = f"nsenter --mount=/proc/{self._holder}/ns/mnt --wd={Path.cwd()}"
        return f"{enter} {sys.executable} -m pybroker start"

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self._filled)
        return status.f_bavail * status.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Take all but `leave_bytes` of the room of the file system, or of the device below it.

        What becomes free meanwhile is not taken: it may be a reserve that the broker has released to write something.
        """
        if self._is_device:
            self._checkpoint_journal()
        left = max(self.free_bytes - leave_bytes, 0)
        with (self._filled / "ballast").open("ab", buffering=0) as ballast:
            while left:
                try:
                    left -= ballast.write(bytes(left))
                except OSError as error:  # meanwhile the broker took the rest
                    if error.errno != errno.ENOSPC:
                        raise
                    break

    def _checkpoint_journal(self) -> None:
        """Make ext4 write its metadata to their final place while there is room.

        ext4 reports a sync as done once its journal has the metadata. It copies them later; when the copy fails for want of room,
        ext4 forgets them, and a file that was synced is empty after the next mount, whatever program wrote it.
        """
        for step in ("--freeze", "--unfreeze"):
            subprocess.run(
                ["nsenter", f"--mount=/proc/{self._holder}/ns/mnt", "fsfreeze", step, str(self.path)], timeout=WAIT_S, check=True
            )

    def empty(self) -> None:
        """Give the room back."""
        (self._filled / "ballast").unlink()

    def mount_again(self) -> None:
        """Mount the device again, after a check and without the contents of the page cache.

        No process may have a file open on it.
        """
        image = f"{self.path}.device/image"
        script = f"umount '{self.path}' && (fsck.ext4 -p '{image}' || [ $? -le 2 ]) && mount -o loop '{image}' '{self.path}'"
        enter = ["nsenter", f"--mount=/proc/{self._holder}/ns/mnt", "sh", "-c", script]
        subprocess.run(enter, stdout=subprocess.DEVNULL, timeout=WAIT_S, check=True)


@contextlib.contextmanager
def small_disk(path: Path, size_bytes: int, *, is_device: bool = False) -> Iterator[SmallDisk]:
    """Mount a tmpfs of that size, or, with `is_device`, an ext4 on a device with only `size_bytes` behind it.

    On the device, the page cache takes what is written, and the sync fails. Skips the test where the machine forbids mounts.
    """
    path.mkdir(parents=True)
    script = (EXT4 if is_device else TMPFS).format(path=path, size=size_bytes).strip() + f" && echo {MOUNTED} && exec cat"
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    with held(command, "a small file system", "unshare and nsenter") as holder:
        yield SmallDisk(path, holder, is_device=is_device)
