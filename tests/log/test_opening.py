"""Many logs at a start: which are opened in threads, what is logged meanwhile, and how little is read of each."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager import opening
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, TopicPartition
from testing.scenes.logs import TOPIC_ID, TP, Disk, FaultyFilesystem, append, batch

TPS = [TP._replace(partition=number) for number in range(6)]


class CountingFilesystem(Filesystem):
    """A file system that counts the bytes read from data files and the looks at each kind of file."""

    __slots__ = ("bytes_read", "calls", "kinds", "opened", "threads")

    def __init__(self) -> None:
        self.bytes_read: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.threads: set[str] = set()
        self.opened: set[str] = set()
        self.kinds: dict[int, str] = {}

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        self.kinds[fd] = path.rpartition(".")[2]
        self.calls["open " + self.kinds[fd]] += 1
        self.opened.add(path)
        return fd

    def pread(self, fd: int, length: int, position: int) -> bytes:
        data = super().pread(fd, length, position)
        self.bytes_read[self.kinds[fd]] += len(data)
        self.threads.add(threading.current_thread().name)
        return data


def manager(disk: Disk, paths: Sequence[Path], filesystem: Filesystem, *, threads: int = 2) -> LogManager:
    return LogManager(
        [str(path) for path in paths],
        cluster_id="a-cluster",
        node_id=BrokerId(1),
        services=LogServices(clock=disk.clock, recovery_threads=threads),
        config_of=lambda _: disk.config,
        filesystem=filesystem,
    )


def start(logs: LogManager) -> LogManager:
    logs.start()
    return logs


def filled(tmp_path: Path, *, was_clean: bool, batches: int = 60) -> tuple[Disk, list[Path], dict[TopicPartition, Offset]]:
    disk = Disk(tmp_path / "a", segment_bytes=2000)
    paths = [tmp_path / "a", tmp_path / "b"]
    logs = start(manager(disk, paths, Filesystem()))
    for tp in TPS:
        log = logs.create(tp, TOPIC_ID, disk.config)
        for _ in range(batches + tp.partition):
            append(log, batch(2, size=100))
        log.flush()
    logs.passes.checkpoint()
    ends = {log.topic_partition: log.log_end_offset for log in logs.all_logs()}
    if was_clean:
        logs.stop()
    else:
        logs.abandon()
    return disk, paths, ends


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("was_clean", [True, False])
def test_every_log_is_there_however_many_threads_open_them(tmp_path: Path, threads: int, *, was_clean: bool) -> None:
    disk, paths, ends = filled(tmp_path, was_clean=was_clean)
    filesystem = CountingFilesystem()
    logs = start(manager(disk, paths, filesystem, threads=threads))
    assert {log.topic_partition: log.log_end_offset for log in logs.all_logs()} == ends
    in_threads = {name for name in filesystem.threads if name.startswith("recover-")}
    assert bool(in_threads) is not was_clean
    if not was_clean:
        assert {name.rpartition("_")[0] for name in in_threads} == {"recover-0", "recover-1"}, "both directories at once"
        assert in_threads == filesystem.threads
    logs.abandon()


def test_a_disk_that_fails_in_a_thread_leaves_the_other_one_alone(tmp_path: Path) -> None:
    disk, paths, ends = filled(tmp_path, was_clean=False)

    class Broken(FaultyFilesystem):
        __slots__ = ()

        def pread(self, fd: int, length: int, position: int) -> bytes:
            if Path(f"/proc/self/fd/{fd}").resolve().is_relative_to(paths[0]):
                self.fault("read")
            return super(FaultyFilesystem, self).pread(fd, length, position)

    filesystem = Broken()
    filesystem.fail_with(5, "read")
    logs = start(manager(disk, paths, filesystem))
    broken, sound = logs.directories
    assert (broken.is_offline, sound.is_offline) == (True, False)
    found = {log.topic_partition: log.log_end_offset for log in logs.all_logs() if log.log_directory is sound}
    assert found
    assert found.items() <= ends.items()
    logs.abandon()


def test_progress_is_logged_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk, paths, _ = filled(tmp_path, was_clean=False)
    monkeypatch.setattr(opening, "PROGRESS_S", 0.001)
    logged = threading.Event()
    log_progress = opening._log_progress

    def log_and_let_go(futures: dict[object, Sequence[Future[Log | Exception]]]) -> None:
        log_progress(futures)  # type: ignore[arg-type]
        logged.set()

    class Waiting(Filesystem):
        __slots__ = ()

        def truncate(self, fd: int, size: int) -> None:
            super().truncate(fd, size)

        def pread(self, fd: int, length: int, position: int) -> bytes:
            assert logged.wait(30)
            return super().pread(fd, length, position)

    monkeypatch.setattr(opening, "_log_progress", log_and_let_go)
    with caplog.at_level(logging.INFO, "pybroker.log.manager.opening"):
        start(manager(disk, paths, Waiting())).abandon()
    assert f"{paths[0]}: 0 of 3 logs are recovered, 0 bytes" in caplog.text


def test_a_recovery_is_one_line_for_each_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk, paths, _ = filled(tmp_path, was_clean=False)
    with caplog.at_level(logging.INFO):
        start(manager(disk, paths, Filesystem())).abandon()
    lines = [record.getMessage() for record in caplog.records if "recover" in record.getMessage().lower()]
    assert lines == [f"{path}: 3 logs after an unclean stop, recovered in 0.0 s" for path in paths]


@pytest.mark.parametrize("batches", [60, 600])
def test_a_clean_start_reads_the_end_of_each_log_and_nothing_of_its_other_segments(tmp_path: Path, batches: int) -> None:
    disk, paths, _ = filled(tmp_path, was_clean=True, batches=batches)
    filesystem = CountingFilesystem()
    logs = start(manager(disk, paths, filesystem))
    count = sum(len(log.segments) for log in logs.all_logs())
    assert count > len(TPS) * batches / 12
    opened = {path for path in filesystem.opened if path.endswith(".log")}
    assert opened == {log.segments.active.path for log in logs.all_logs()}, "only active segments are looked into"
    assert filesystem.bytes_read["log"] <= len(TPS) * 3 * disk.config.segment_bytes
    assert filesystem.calls["open index"] + filesystem.calls["open timeindex"] <= 2 * len(TPS)
    logs.abandon()


def test_after_a_kill_only_what_lies_behind_the_recovery_points_is_read(tmp_path: Path) -> None:
    disk, paths, _ = filled(tmp_path, was_clean=False, batches=600)
    filesystem = CountingFilesystem()
    logs = start(manager(disk, paths, filesystem))
    total = sum(log.size for log in logs.all_logs())
    opened = {path for path in filesystem.opened if path.endswith(".log")}
    assert opened <= {segment.path for log in logs.all_logs() for segment in list(log.segments)[-2:]}
    assert filesystem.bytes_read["log"] <= len(TPS) * 4 * disk.config.segment_bytes < total / 5
    logs.abandon()
