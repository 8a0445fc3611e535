"""The offset map: which source offset became which target offset. Each partition has a file, written before the records.

The mirror sends records in order, and no other client writes to the target, so a record's offset there is known before it is
sent. While the offsets of both sides grow by one, there is nothing to write. Where the source has a gap (markers of
transactions, records that compaction or retention removed), a new run begins:

    source  100 101 102 | 104 105 | 200 201 ...      runs  (100, 0) (104, 3) (200, 5)
    target    0   1   2 |   3   4 |   5   6 ...

A run is in the file before its first record is sent. So after a kill the end of the target's log shows how much has arrived, and
the runs show what that was. If the log ends at 4, everything up to source offset 104 has arrived, and 105 is next. Runs beyond
the end are deleted.

| at | bytes | what                                                                                             |
|----|-------|--------------------------------------------------------------------------------------------------|
| 0  | 8     | `pbmirr1\\n`                                                                                      |
| 8  | 24    | what has certainly arrived: next source offset, end in the target, bytes sent in all; int64      |
| 32 | 4     | CRC-32 of these                                                                                  |
| 36 | 20    | a run: first source offset, first target offset, int64; CRC-32 of both; and so on                |

All numbers are big-endian. If two runs have the same target offset, the later is right, and no record of the earlier was sent.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from pybroker.model import Offset
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC: Final = b"pbmirr1\n"
_MARK: Final = struct.Struct(">qqqI")
_RUN: Final = struct.Struct(">qqI")
_RUNS_AT: Final = 36
assert len(_MAGIC) + _MARK.size == _RUNS_AT
_LOCK_TIMEOUT_S: Final = 30.0
_LOCK_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Arrived:
    """The records that are known to have arrived."""

    source: Offset
    """The next offset of the source."""
    target: Offset
    """The end of the target's log."""
    size: int
    """The bytes of all batches that were sent, in all runs of the job."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of `count` consecutive offsets on both sides."""

    source: int
    target: int
    count: int


@final
class OffsetMap:
    """The map of a partition, in memory and in its file. `read` opens it for looking up, `write` for the task that copies."""

    def __init__(
        self, path: Path, descriptor: int | None, arrived: Arrived | None, sources: array[int], targets: array[int]
    ) -> None:
        self._path, self._descriptor = path, descriptor
        self._sources, self._targets = sources, targets
        self.arrived = arrived

    @classmethod
    def read(cls, path: Path) -> OffsetMap:
        """Read the map as it is now. Raises PipelineError when there is none."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error
        return cls(path, None, *_parse(path, data))

    @classmethod
    def write(cls, path: Path) -> OffsetMap:
        """Open or create the map, for this process alone, once a task that was killed is gone. Raises PipelineError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error
        try:
            _lock(path, descriptor)
            data = path.read_bytes()
            found = cls(path, descriptor, *_parse(path, data))
            os.ftruncate(descriptor, _RUNS_AT + len(found._sources) * _RUN.size if data else 0)  # without a half-written run
        except BaseException:
            os.close(descriptor)
            raise
        return found

    def close(self) -> None:
        """Release the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> OffsetMap:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Writing ----------------------------------------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever planned."""
        return not self._sources

    @property
    def base(self) -> Offset:
        """The offset of the first record in the target."""
        return Offset(self._targets[0])

    def begin(self, source: Offset, *, target: Offset) -> None:
        """Set the offset of the first record to copy, and its offset in the target."""
        assert self.is_new
        self._store(_MAGIC, 0)
        self.mark(Arrived(source, target, 0))
        self.plan([(source, target)])

    def resume(self, end: Offset) -> Offset:
        """Return the next source offset if the target ends at `end`, and delete runs beyond it. Raises PipelineError."""
        if end < self._targets[0]:
            raise PipelineError(
                f"{self._path} begins at offset {self._targets[0]}, but the target ends at {end}: it is another log"
            )
        kept = bisect_right(self._targets, end)
        if kept < len(self._targets):
            del self._sources[kept:], self._targets[kept:]
            os.ftruncate(self._fd, _RUNS_AT + kept * _RUN.size)
        return Offset(self._sources[-1] + end - self._targets[-1])

    def plan(self, runs: Iterable[tuple[Offset, Offset]]) -> None:
        """Add the runs that are sent next, as pairs of first source and target offset. They are on the disk on return."""
        fresh = bytearray()
        at = _RUNS_AT + len(self._sources) * _RUN.size
        for source, target in runs:
            if self._sources and source - target == self._sources[-1] - self._targets[-1]:
                continue
            self._sources.append(source)
            self._targets.append(target)
            fresh += _RUN.pack(source, target, zlib.crc32(_RUN.pack(source, target, 0)))
        if fresh:
            self._store(fresh, at)
            os.fsync(self._fd)

    def mark(self, arrived: Arrived) -> None:
        """Write down what has arrived."""
        self.arrived = arrived
        fields = (arrived.source, arrived.target, arrived.size)
        self._store(_MARK.pack(*fields, zlib.crc32(_MARK.pack(*fields, 0))), len(_MAGIC))

    @property
    def _fd(self) -> int:
        assert self._descriptor is not None, "the map is open for writing"
        return self._descriptor

    def _store(self, data: bytes | bytearray, at: int) -> None:
        if os.pwrite(self._fd, data, at) != len(data):
            raise PipelineError(f"{self._path}: the disk is full")

    # --- Looking up -------------------------------------------------------------------------------------------------------------

    def source_of(self, target: Offset) -> Offset:
        """Return the source offset of the record, arrived or planned, with this target offset. Raises PipelineError."""
        index = bisect_right(self._targets, target) - 1
        if index < 0:
            raise PipelineError(f"offsets before {self._targets[0] if self._targets else 0} were not mirrored")
        return Offset(self._sources[index] + target - self._targets[index])

    def runs(self) -> Iterator[Run]:
        """Yield the runs of what has arrived, in order."""
        end = 0 if self.arrived is None else self.arrived.target
        for index, (source, target) in enumerate(zip(self._sources, self._targets, strict=True)):
            following = self._targets[index + 1] if index + 1 < len(self._targets) else end
            count = min(following, end) - target
            if count > 0:
                yield Run(source, target, count)


def read_arrived(path: Path) -> Arrived | None:
    """Return what has arrived, without the runs; None before the first run, or at the very moment of a change."""
    try:
        with path.open("rb") as file:
            return _arrived(file.read(_RUNS_AT))
    except FileNotFoundError:
        return None


def _arrived(data: bytes) -> Arrived | None:
    if len(data) < _RUNS_AT:
        return None
    *fields, checksum = _MARK.unpack_from(data, len(_MAGIC))
    return Arrived(*fields) if checksum == zlib.crc32(_MARK.pack(*fields, 0)) else None


def _parse(path: Path, data: bytes) -> tuple[Arrived | None, array[int], array[int]]:
    sources, targets = array("q"), array("q")
    if not data:
        return None, sources, targets
    if not data.startswith(_MAGIC[: len(data)]):
        raise PipelineError(f"{path} is not the offset map of a mirror")
    whole = max(0, len(data) - _RUNS_AT) // _RUN.size
    for number in range(whole):
        source, target, checksum = _RUN.unpack_from(data, _RUNS_AT + number * _RUN.size)
        if checksum != zlib.crc32(_RUN.pack(source, target, 0)):
            if number == whole - 1:
                break  # the machine went down while the run was written
            raise PipelineError(f"{path} is damaged at run {number}")
        sources.append(source)
        targets.append(target)
    return _arrived(data), sources, targets


def _lock(path: Path, descriptor: int) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PipelineError(f"{path} is in use: another mirror is running") from None
            time.sleep(_LOCK_PAUSE_S)
        else:
            return
