"""A shortage of descriptors at any step of a log: the step is refused, nothing is lost or doubled, and the log works again."""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.log.directories.directory import ShortageError
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes import entry_file
from pybroker.log.log import Log
from pybroker.log.results import AppendOrigin
from pybroker.log.segments import file_records
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import BatchView
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.sharing.work import run_through
from testing.scenes.logs import START_MS, Disk, Producer, append, batch, delete_old_segments, read_batches

PRODUCERS = [Producer(7), Producer(8)]


def roll(log: Log) -> None:
    log.roll(START_MS)


class ScarceFilesystem(Filesystem):
    """A file system without a descriptor for `count` operations, beginning with number `first`."""

    __slots__ = ("_first", "_last", "done", "refused")

    def __init__(self, first: int = -1, count: int = 0) -> None:
        self._first, self._last = first, first + count
        self.done = 0
        self.refused = 0

    def _take(self) -> None:
        number, self.done = self.done, self.done + 1
        if self._first <= number < self._last:
            self.refused += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        self._take()
        return super().open(path, writable=writable, create=create)

    def map(self, fd: int, length: int) -> mmap.mmap:
        self._take()
        return super().map(fd, length)

    def list(self, path: str) -> list[os.DirEntry[str]]:
        self._take()
        return super().list(path)

    def create_empty(self, path: str) -> None:
        self._take()
        super().create_empty(path)

    def read_file(self, path: str) -> bytes:
        self._take()
        return super().read_file(path)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        self._take()
        super().write_file(path, data, sync=sync)

    def sync(self, fd: int) -> None:
        """Do nothing: a sync needs no descriptor, and would only cost time."""

    def sync_path(self, path: str) -> None:
        self._take()
        super().sync_path(path)

    def sync_directory(self, path: str) -> None:
        self._take()
        super().sync_directory(path)


class Story:
    """A story of one log; each step is tried again when it is refused."""

    def __init__(self, path: Path, filesystem: ScarceFilesystem) -> None:
        self.refusals = 0
        self.disk = Disk(
            path, filesystem=filesystem, segment_bytes=1_500, index_interval_bytes=100, retention_bytes=6_000, flush_messages=50
        )
        self.log: Log = self.tried(self.disk.create)
        self.sent: dict[int, bytes] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self._random = random.Random(5)

    def tried(self, step: Callable[[], Any]) -> Any:
        for _ in range(100):
            try:
                return step()
            except ShortageError:
                self.refusals += 1
            assert not self.disk.directory.is_offline
            if hasattr(self, "log"):
                self.check()
        raise AssertionError("refused without end")

    def append(self, *, epoch: int = 0, producer: Producer | None = None, transactional: bool = False) -> None:
        sequence = 0 if producer is None else self.sequences[producer]
        times = [START_MS + self._random.randrange(100_000) for _ in range(self._random.randint(1, 3))]
        data = batch(timestamps=times, size=40, producer=producer, sequence=sequence, is_transactional=transactional)
        first = self.tried(lambda: append(self.log, bytearray(data), leader_epoch=epoch))
        self.sent[first] = bytes(BatchView(memoryview(data)).payload)
        if producer is not None:
            self.sequences[producer] += len(times)

    def marker(self, producer: Producer, kind: ControlType) -> None:
        data = build_transaction_marker(
            TransactionMarker(kind, CoordinatorEpoch(0)),
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=START_MS,
        )
        info = self.tried(
            lambda: self.log.append_as_leader(
                memoryview(bytearray(data)), leader_epoch=LeaderEpoch(2), now_ms=START_MS, origin=AppendOrigin.COORDINATOR
            )
        )
        self.sent[info.first_offset] = bytes(BatchView(memoryview(data)).payload)

    def truncate(self, offset: int) -> None:
        self.tried(lambda: self.log.truncate_to(Offset(offset)))
        self.sent = {first: data for first, data in self.sent.items() if first < self.log.log_end_offset}
        # The producers begin again: what they had sent is gone.
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    def check(self) -> None:
        """Check in memory alone that the log has what was acknowledged."""
        bases = self.log.segments.base_offsets
        assert bases == sorted(set(bases))
        assert bases[0] <= self.log.log_start_offset <= self.log.log_end_offset

    def run(self) -> None:
        for epoch in (0, 2):
            for _ in range(14):
                self.append(epoch=epoch)
                self.append(epoch=epoch, producer=PRODUCERS[0])
            self.tried(lambda: run_through(self.log.offset_for_timestamp(START_MS + 50_000)))
            self.tried(lambda: read_batches(self.log))
        self.append(epoch=2, producer=PRODUCERS[1], transactional=True)
        self.marker(PRODUCERS[1], ControlType.ABORT)
        self.tried(self.log.flush)
        self.append(epoch=2)
        offset = self.log.log_start_offset + 5
        self.tried(lambda: self.log.increment_log_start_offset(offset, high_watermark=self.log.log_end_offset))
        self.tried(lambda: delete_old_segments(self.log, START_MS))
        starts = sorted(first for first in self.sent if first > self.log.log_start_offset)
        self.truncate(starts[len(starts) // 3])
        for _ in range(12):
            self.append(epoch=5)
        self.tried(lambda: self.log.aborted_transactions(fetch_offset=Offset(0), upper_offset=self.log.log_end_offset))
        self.tried(lambda: self.log.guarded(lambda: roll(self.log)))
        self.append(epoch=5)

    def state(self) -> dict[str, object]:
        """Return what a reader, a producer and a follower see."""
        log = self.log
        found = [(one.base_offset, one.next_offset, bytes(one.payload)) for one in read_batches(log)]
        assert [one[0] for one in found[1:]] == [one[1] for one in found[:-1]], "offsets are dense"
        assert not found or found[-1][1] == log.log_end_offset
        expected = {first: data for first, data in self.sent.items() if first >= found[0][0]}
        assert {first: data for first, _, data in found} == expected
        return {
            "start": log.log_start_offset,
            "end": log.log_end_offset,
            "batches": [one[:2] for one in found],
            "epochs": log.epochs.entries,
            "producers": {
                producer_id: (entry.producer_epoch, entry.last_timestamp, entry.batches[-1] if entry.batches else None)
                for producer_id, entry in log.producers.producers.items()
            },
            "aborted": log.aborted_transactions(fetch_offset=log.log_start_offset, upper_offset=log.log_end_offset),
        }

    def reopened(self, *, was_clean: bool, path: Path) -> dict[str, object]:
        disk = Disk(path, segment_bytes=1_500, index_interval_bytes=100)
        held = self.log
        self.log = disk.open(was_clean=was_clean, recovery_point=held.recovery_point, log_start_offset=held.log_start_offset)
        state = self.state()
        self.log.release()
        self.log = held
        return state


def ended(path: Path, *, first: int = -1, count: int = 0) -> tuple[ScarceFilesystem, list[dict[str, object]]]:
    """Return the states in which a story ends: at once, after a kill and a start, and after a stop and a start."""
    filesystem = ScarceFilesystem(first, count)
    story = Story(path, filesystem)
    story.run()
    states = [story.tried(story.state)]
    shutil.copytree(path, path.with_name("killed"))
    states.append(story.reopened(was_clean=False, path=path.with_name("killed")))
    story.tried(story.log.close)
    states.append(story.reopened(was_clean=True, path=path))
    shutil.rmtree(path.with_name("killed"))
    return filesystem, states


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_file, "TAIL_BYTES_MAX", 48)  # index entries are written in the middle of segments
    monkeypatch.setattr(file_records, "MAP_THRESHOLD", 512)
    monkeypatch.setattr(file_records, "MAP_STEP", 1024)


def test_a_shortage_gets_kafka_s_error_for_a_disk_that_cannot_be_used_and_the_directory_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path)
    for code in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        for _ in range(40):
            error = disk.directory.fail(OSError(code, os.strerror(code)))
            assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert "ulimit -n" in error.message
    assert not disk.directory.is_offline
    assert disk.directory.shortages == 120
    assert len(caplog.records) == 3, "the 1st, the 10th and the 100th"
    disk.directory.fail(OSError(errno.EIO, "broken"))
    assert disk.directory.is_offline
    disk.directory.fail(OSError(errno.EMFILE, "none left"))
    assert "offline" in disk.directory.fail(OSError(errno.EMFILE, "none left")).message


@pytest.mark.parametrize("count", [1, 7])
def test_a_shortage_at_any_operation_only_means_that_a_client_has_to_ask_again(tmp_path: Path, count: int) -> None:
    filesystem, expected = ended(tmp_path / "log")
    operations = filesystem.done
    assert operations > 120
    assert expected[0] == expected[1] == expected[2]
    for first in range(operations):
        shutil.rmtree(tmp_path / "log")
        filesystem, states = ended(tmp_path / "log", first=first, count=count)
        assert filesystem.refused > 0
        assert states == expected, first


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("refused", range(3))
def test_a_roll_that_is_refused_and_not_tried_again_leaves_no_segment_that_a_start_would_end_the_log_with(
    tmp_path: Path, refused: int, *, was_clean: bool
) -> None:
    log = Disk(tmp_path, filesystem=ScarceFilesystem()).create()
    append(log, batch(3))
    log.segments.active.write_last_timestamp()
    filesystem = log.filesystem
    assert isinstance(filesystem, ScarceFilesystem)
    filesystem._first, filesystem._last = filesystem.done + refused, filesystem.done + refused + 1
    with pytest.raises(ShortageError):
        log.guarded(lambda: roll(log))
    append(log, batch(2))
    if was_clean:
        log.close()
    log.release()
    again = Disk(tmp_path).open(was_clean=was_clean)
    assert (again.log_end_offset, len(again.segments)) == (5, 1)
    assert [one.base_offset for one in read_batches(again)] == [0, 3]
