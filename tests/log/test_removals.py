"""The removal of a segment's files, while something else happens to their log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.deletion import delete_segments
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.segments.segment import LogSegment
from testing.scenes.logs import START_MS, Disk, append, batch


class Overtaken(Filesystem):
    """Makes a change before it removes the file that a test names."""

    def __init__(self) -> None:
        self.kind = ""
        self.change: Callable[[], object] = int

    def remove(self, path: str) -> None:
        if self.kind and path.endswith(self.kind):
            self.change()
        super().remove(path)


@pytest.mark.parametrize("kind", [".txnindex.deleted", ".log.deleted", ".index.deleted"])
def test_a_log_that_is_deleted_meanwhile_is_no_failure_of_the_disk(tmp_path: Path, kind: str) -> None:
    filesystem = Overtaken()
    disk = Disk(tmp_path, filesystem=filesystem, file_delete_delay_ms=0)
    log = disk.create()
    append(log, batch(size=100, timestamp=START_MS))
    log.roll(START_MS)
    first: LogSegment = log.segments[0]
    Path(first.transaction_index.path).write_bytes(b"")
    delete_segments(log, [first])
    (remove,) = disk.directory.take_due(START_MS)
    filesystem.kind, filesystem.change = kind, lambda: disk.log_path.rename(tmp_path / "t-deleted")
    remove()
    assert not disk.log_path.exists()
