"""A real file system of a few megabytes, in a mount namespace that only its processes see and that ends with them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs at `path`, as those see it who are `inside`; `seen` is the same from outside."""

    def __init__(self, path: Path, holder: int) -> None:
        self.path, self._holder = path, holder
        self.seen = Path(f"/proc/{holder}/root{path}")

    def inside(self) -> str:
        """The broker's command line, for PYBROKER_TEST_COMMAND."""
        enter = f"nsenter --mount=/proc/{self._holder}/ns/mnt --wd={Path.cwd()}"
        return f"{enter} {sys.executable} -m pybroker start"

    @property
    def free_bytes(self) -> int:
        status = os.statvfs(self.seen)
        return status.f_bavail * status.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Take the room but for that much."""
        with (self.seen / "ballast").open("ab") as ballast:
            ballast.write(bytes(max(0, self.free_bytes - leave_bytes)))

    def empty(self) -> None:
        """Give it back."""
        (self.seen / "ballast").unlink()


@contextlib.contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Skips the test where the machine does not let us mount."""
    path.mkdir(parents=True)
    script = f"mount -t tmpfs -o size={size_bytes} tmpfs '{path}' && echo mounted && exec cat"
    try:
        holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError:
        pytest.skip("needs unshare and nsenter, of util-linux")
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder:  # which closes its stdin, and so ends it
        said = holder.stdout.readline().strip()
        if said != "mounted":
            pytest.skip(f"cannot mount a small file system here: {said}")
        yield SmallDisk(path, holder.pid)
