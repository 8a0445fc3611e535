"""Several cleaner threads: as many logs at once as `log.cleaner.threads` allows, one limit for all, and none that stays dead."""

from __future__ import annotations

import errno
import os
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.log.cleaner.cleanable import Cleanable
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.cleaner.worker import CleanerWorker
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.model import Offset
from pybroker.records.compression import CompressionType
from testing.scenes.compacted_log import records
from testing.scenes.compacted_logs import CompactedLogs
from testing.scenes.logs import content

BACKOFF_S = 15.0
RATE = 1_000_000


def most_at_once(scene: CompactedLogs) -> int:
    """Run until nothing is left to clean, and return how many logs were cleaned at once at most."""
    most = 0
    while True:
        scene.step()
        busy = scene.busy()
        assert len(set(busy)) == len(busy), "a log is cleaned by one thread"
        most = max(most, len(busy))
        if not busy and scene.timers[0][0] - scene.clock.waited_s > 1:
            return most


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_as_many_logs_are_cleaned_at_once_as_there_are_threads(tmp_path: Path, threads: int) -> None:
    scene = CompactedLogs(tmp_path, 5, overrides={"log.cleaner.threads": str(threads)})
    for log in scene.all:
        scene.fill(log)
    assert most_at_once(scene) == threads
    assert scene.counts() == [1] * 5


def test_another_number_of_threads_holds_while_logs_are_cleaned(tmp_path: Path) -> None:
    slow = {"log.cleaner.io.max.bytes.per.second": str(RATE // 10)}
    scene = CompactedLogs(tmp_path, 6, overrides=slow)
    for log in scene.all:
        scene.fill(log)
    scene.run(BACKOFF_S + 0.5)
    assert len(scene.busy()) == 1
    scene.configure(threads="3", io_max_bytes_per_second=str(RATE // 10))
    scene.run(BACKOFF_S)
    three = scene.busy()
    assert len(three) == len(set(three)) == 3
    scene.configure(threads="1", io_max_bytes_per_second=str(RATE // 10))
    scene.run(1)
    assert set(scene.busy()) == set(three), "what was begun is not given up"
    while len(scene.busy()) > 1:
        scene.step()
    assert most_at_once(scene) <= 2, "one, and the last of the three"
    assert scene.counts() == [1] * 6
    assert len(scene.cleaner._workers) == 1


def test_all_threads_share_one_limit_of_bytes(tmp_path: Path) -> None:
    scene = CompactedLogs(tmp_path, 3, overrides={"log.cleaner.threads": "3", "log.cleaner.io.max.bytes.per.second": str(RATE)})
    for log in scene.all:
        scene.fill(log)
    read = sum(2 * sum(segment.size for segment in list(log.segments)[:-1]) for log in scene.all)
    while not scene.busy():
        scene.step()
    began = scene.clock.waited_s
    progress: list[int] = []
    while scene.busy():
        progress.append(len(scene.busy()))
        scene.step()
    took = scene.clock.waited_s - began
    assert read / RATE - 0.1 < took < read / RATE * 1.1, "all of it is read twice, by all threads together"
    assert progress.count(3) > len(progress) * 0.8, "none waits until another has ended"


def test_a_new_limit_holds_within_a_third_of_a_second(tmp_path: Path) -> None:
    scene = CompactedLogs(tmp_path, 1, overrides={"log.cleaner.io.max.bytes.per.second": "1000"})
    scene.fill(scene.all[0])
    scene.run(BACKOFF_S + 5)
    assert scene.busy(), "600 kB would take 20 minutes"
    scene.configure(io_max_bytes_per_second="100000000")
    scene.run(0.5)
    assert not scene.busy()
    assert scene.counts() == [1]


def test_a_bug_in_a_cleaning_costs_that_log_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = CompactedLogs(tmp_path, 3, overrides={"log.cleaner.threads": "2"})
    for log in scene.all:
        scene.fill(log)
    clean = LogCleaner._clean

    def failing(self: LogCleaner, one: Cleanable, worker: CleanerWorker) -> object:
        if one.log is scene.all[1]:
            raise ZeroDivisionError
        return clean(self, one, worker)

    def later(self: LogCleaner, one: Cleanable, worker: CleanerWorker) -> object:
        yield None
        yield from failing(self, one, worker)  # type: ignore[misc]

    monkeypatch.setattr(LogCleaner, "_clean", later)
    most_at_once(scene)
    assert scene.counts() == [1, 30, 1]
    assert (scene.cleaner.uncleanable_count, scene.bugs, scene.cleaner.dead_thread_count) == (1, 1, 0)


def test_a_thread_that_dies_is_counted_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = CompactedLogs(tmp_path, 2)
    for log in scene.all:
        scene.fill(log)
    scene.run(BACKOFF_S - 1)
    with monkeypatch.context() as patch:
        patch.setattr(LogCleaner, "_do", lambda *_: 1 / 0)
        scene.run(2)
    assert (scene.cleaner.dead_thread_count, scene.bugs) == (1, 1)
    assert "ends because of a bug, and begins again later" in caplog.text
    assert scene.counts() == [30, 30]
    scene.run(BACKOFF_S)
    assert scene.counts() == [1, 1]
    assert scene.cleaner.dead_thread_count == 0


def test_a_look_at_many_logs_pauses_between_and_none_is_left_out(tmp_path: Path) -> None:
    scene = CompactedLogs(tmp_path, 70, overrides={"log.cleaner.threads": "2"})
    for log in (scene.all[0], scene.all[69]):
        scene.fill(log)
    scene.run(BACKOFF_S)
    assert not scene.busy()
    looked = [scene.step() for _ in range(3)]
    assert len(looked) == 3
    assert set(scene.busy()) | {log for log in scene.all if len(log.segments) == 2} >= {scene.all[0], scene.all[69]}
    scene.run(1)
    assert scene.counts() == [1, *[0] * 68, 1]


def test_a_look_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = CompactedLogs(tmp_path, 1)
    scene.fill(scene.all[0])
    with monkeypatch.context() as patch:
        patch.setattr(LogCleaner, "_cleanable", lambda _self, _log: 1 / 0)
        scene.run(BACKOFF_S + 1)
    assert (scene.cleaner.dead_thread_count, scene.bugs) == (1, 1)
    scene.run(BACKOFF_S)
    assert scene.counts() == [1]


class Guarded(Filesystem):
    """A file system that may write new segments, sync, and read what is not in memory only where blocking is allowed."""

    def __init__(self) -> None:
        self.may_block = True
        self.is_cold = False
        self.cleaned: set[int] = set()

    def _block(self, what: str) -> None:
        assert self.may_block, what

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        if path.endswith(".log.cleaned"):
            self.cleaned.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.cleaned.discard(fd)
        super().close(fd)

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        if fd in self.cleaned:
            self._block("a new segment is written")
        return super().pwrite(fd, data, position)

    def sync(self, fd: int) -> None:
        self._block("a file is synced")

    def sync_path(self, path: str) -> None:
        self._block(f"{path} is synced")

    def sync_directory(self, path: str) -> None:
        self._block(f"{path} is synced")

    def is_resident(self, fd: int, position: int) -> bool:
        return not self.is_cold


class HungThread:
    """A disk's thread, each of whose jobs hangs until the test lets it continue."""

    def __init__(self, filesystem: Guarded) -> None:
        self.filesystem = filesystem
        self.jobs: deque[tuple[Callable[[], None], Callable[[OSError | None], None]]] = deque()
        self.is_hanging = False

    def run(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.jobs.append((work, done))
        if not self.is_hanging:
            self.finish()

    def finish(self) -> None:
        work, done = self.jobs.popleft()
        before, self.filesystem.may_block = self.filesystem.may_block, True
        try:
            work()
        except OSError as error:
            done(error)
            return
        finally:
            self.filesystem.may_block = before
        done(None)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_appends_and_reads_continue_while_the_cleaners_disk_hangs(tmp_path: Path, codec: CompressionType) -> None:
    """The disk hangs at each point of the cleaning at which a thread works."""
    filesystem = Guarded()
    disk, codecs = HungThread(filesystem), HungThread(filesystem)
    scene = CompactedLogs(tmp_path, 1, filesystem=filesystem, disk_thread=disk.run, codec_thread=codecs.run)
    (log,) = scene.all
    draw = random.Random(1)
    for number in range(40):  # more than one write of the new segment
        scene.put(log, b"kept-%d" % number, draw.randbytes(20_000), codec)
    scene.fill(log, codec)
    disk.is_hanging = codecs.is_hanging = True
    filesystem.may_block = False
    hung = 0
    for number in range(1000):
        value = b"meanwhile-%d" % number
        offset = scene.put(log, b"other-%d" % number, value)
        assert value in read(log, offset)
        assert read(log, 0)
        filesystem.is_cold = number % 2 == 1
        if disk.jobs or codecs.jobs:
            hung += 1
            (disk if disk.jobs else codecs).finish()
        elif scene.timers and scene.timers[0][0] < 2 * BACKOFF_S:
            scene.step()
        else:
            break
    filesystem.is_cold = False
    assert hung > 8
    assert len(records(log)) == 42 + number, "one of each key"
    assert log.log_directory.failure is None


def read(log: Log, offset: int) -> bytes:
    """Read as a consumer does."""
    fetched = log.read(Offset(offset), bytes_max=1 << 16, upper_offset=log.log_end_offset, min_one_batch=True)
    return content(fetched)


def test_a_disk_that_fails_in_a_thread_ends_all_cleanings_on_it(tmp_path: Path) -> None:
    filesystem = Guarded()
    scene = CompactedLogs(tmp_path, 2, filesystem=filesystem, overrides={"log.cleaner.threads": "2"})
    for log in scene.all:
        scene.fill(log)

    def fail(fd: int, data: Any, position: int) -> int:
        if fd in filesystem.cleaned:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.pwrite(fd, data, position)

    filesystem.pwrite = fail  # type: ignore[method-assign]
    scene.run(2 * BACKOFF_S)
    assert scene.all[0].log_directory.is_offline
    assert not scene.busy()
    assert (scene.bugs, scene.cleaner.dead_thread_count) == (0, 0)


def test_an_error_of_a_log_that_was_deleted_meanwhile_is_no_error_of_the_next_one(tmp_path: Path) -> None:
    """A step in a thread meets what is no longer there, because the topic was deleted."""
    filesystem = Guarded()
    disk = HungThread(filesystem)
    scene = CompactedLogs(tmp_path, 2, filesystem=filesystem, disk_thread=disk.run)
    for log in scene.all:
        scene.fill(log)
    disk.is_hanging = True
    scene.run(BACKOFF_S + 1)
    (first,) = scene.busy()
    (second,) = [log for log in scene.all if log is not first]
    assert disk.jobs, "the first step in the disk's thread"
    scene.logs.delete(first.topic_partition)
    _, done = disk.jobs.popleft()
    disk.is_hanging = False
    done(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), first.path))
    while disk.jobs:
        disk.finish()
    scene.run(BACKOFF_S + 1)
    assert len(records(second)) == 1
    assert not second.log_directory.is_offline
