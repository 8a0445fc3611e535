"""Work that comes round, in the thread of a log directory."""

from __future__ import annotations

import errno
from pathlib import Path

from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from testing.scenes.logs import Disk, HeldThread


def test_a_pass_is_not_begun_behind_an_unfinished_one(tmp_path: Path) -> None:
    thread, ran = HeldThread(), []
    directory = LogDirectory(str(tmp_path), Filesystem(), None, thread)
    assert directory.run_pass("checkpoint", [lambda: ran.append(1)])
    assert not directory.run_pass("checkpoint", [lambda: ran.append(2)])
    assert directory.run_pass("removals", [lambda: ran.append(3)]), "another kind"
    assert directory.is_busy_with("checkpoint")
    thread.run_next()
    thread.run_next()
    assert thread.jobs == []
    assert not directory.is_busy_with("checkpoint")
    assert directory.run_pass("checkpoint", [lambda: ran.append(4)])
    thread.run_next()
    assert ran == [1, 3, 4]


def test_the_pieces_of_a_pass_let_others_in_between(tmp_path: Path) -> None:
    thread, ran = HeldThread(), []
    directory = LogDirectory(str(tmp_path), Filesystem(), None, thread)
    directory.run_pass("removals", [lambda: ran.append("first"), lambda: ran.append("second")])
    directory.run_in_thread(lambda: ran.append("a flush"), lambda _error: None)
    thread.run_all()
    assert ran == ["first", "a flush", "second"]
    assert not directory.run_pass("removals", []) or not directory.is_busy_with("removals")


def test_a_pass_that_fails_ends_and_takes_the_directory_offline(tmp_path: Path) -> None:
    thread, ran = HeldThread(), []
    directory = LogDirectory(str(tmp_path), Filesystem(), None, thread)
    directory.run_pass("removals", [lambda: ran.append(1), lambda: ran.append(2)])
    thread.run_next(OSError(errno.EIO, "bad sector"))
    assert directory.is_offline
    assert thread.jobs == []
    assert ran == []
    assert not directory.is_busy_with("removals")


def test_a_slow_disk_gets_one_checkpoint_at_a_time(tmp_path: Path) -> None:
    disk, thread = Disk(tmp_path), HeldThread()
    manager = disk.manager(thread_of=lambda _path: thread)
    manager.start()
    for _ in range(3):
        manager.passes.checkpoint()
        manager.passes.write_high_watermarks(lambda _: None)
    assert len(thread.jobs) == 2, "one of each kind, however often its time came"
    thread.run_next()
    manager.passes.checkpoint()
    assert len(thread.jobs) == 2
    thread.run_all()
    manager.stop()
