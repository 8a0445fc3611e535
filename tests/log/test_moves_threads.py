"""The last steps of a move: the loop waits for no disk, and the old place stays until the new one is durable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, TopicPartition
from pybroker.sharing.work import ThreadRunner, run_inline
from testing.scenes.cold_files import ColdFilesystem
from testing.scenes.logs import TOPIC_ID, TP, Disk, HeldThread, append, batch, read_batches


class ThreadedFilesystem(Filesystem):
    """A file system that counts what is synced outside of `thread`."""

    __slots__ = ("is_in_thread", "synced_on_loop")

    def __init__(self) -> None:
        self.is_in_thread = False
        self.synced_on_loop = 0

    def sync(self, fd: int) -> None:
        self.synced_on_loop += not self.is_in_thread
        super().sync(fd)

    def thread(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        def marked() -> None:
            self.is_in_thread = True
            try:
                work()
            finally:
                self.is_in_thread = False

        run_inline(marked, done)


class Scene:
    """A log in the first of two directories; the thread of the second one is held."""

    def __init__(self, folder: Path) -> None:
        self.disk = Disk(folder, segment_bytes=600)
        self.folders = [folder / "a", folder / "b"]
        self.filesystem = ThreadedFilesystem()
        self.held = HeldThread()
        self.is_held = True
        self.start()
        self.log = self.logs.create(TP, TOPIC_ID, self.disk.config)
        for _ in range(10):
            append(self.log, batch(2, size=60))

    def start(self) -> None:
        self.logs = LogManager(
            [str(folder) for folder in self.folders],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=self.disk.services,
            config_of=lambda _: self.disk.config,
            filesystem=self.filesystem,
            thread_of=self.thread_of,
        )
        self.logs.start(lambda tp: TOPIC_ID if tp == TP else None)
        self.turns: list[Callable[[], None]] = []
        self.moved: list[Log] = []
        self.moves = DirectoryMoves(self.logs, later=self.turns.append, on_moved=self.on_moved)

    def on_moved(self, _: TopicPartition, log: Log) -> None:
        self.moved.append(log)

    def thread_of(self, path: str) -> ThreadRunner:
        return self.to_held if path == str(self.folders[1]) else self.filesystem.thread

    def to_held(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        self.held(lambda: self.filesystem.thread(work, raised), done)

    def until(self, is_enough: Callable[[], object]) -> None:
        """Do turns of the moves, and jobs of the thread where the turns wait for them."""
        self.moves.start(TP, self.logs.directories[1])
        self.continue_until(is_enough)

    def continue_until(self, is_enough: Callable[[], object]) -> None:
        for _ in range(500):
            if is_enough():
                return
            if self.turns:
                self.turns.pop(0)()
            if not is_enough() and self.held.jobs:
                self.held.run_next()
        raise AssertionError("the move does not end")

    def names(self) -> list[list[str]]:
        """Return the endings of the names of the partitions' directories, by log directory."""
        return [sorted(entry.name.rpartition("-")[2] for entry in folder.iterdir() if entry.is_dir()) for folder in self.folders]


def raised(error: OSError | None) -> None:
    if error is not None:
        raise error


def test_the_loop_syncs_nothing_of_a_move(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.filesystem.synced_on_loop = 0
    scene.until(lambda: scene.names()[0] == ["delete"])
    assert scene.filesystem.synced_on_loop == 0
    assert len(scene.moved) == 1


def test_the_old_place_stays_until_the_new_one_is_durable(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(lambda: scene.moved)
    (log,) = scene.moved
    assert scene.held.jobs, "the thread has not synced the log at its new place"
    for _ in range(20):
        append(log, batch(2, size=60))
        scene.turns.pop(0)()
    assert scene.names() == [["3"], ["3"]]
    scene.continue_until(lambda: not scene.turns)
    assert scene.names() == [["delete"], ["3"]]
    assert log.safe_recovery_point >= 20
    assert not log.is_moving
    assert log.log_end_offset == 60


def test_a_kill_before_the_new_place_is_durable_loses_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(lambda: scene.moved)
    append(scene.moved[0], batch(2, size=60))
    scene.logs.abandon()
    scene.held.jobs.clear()
    scene.start()
    found = scene.logs.get(TP)
    assert found is not None
    assert (found.log_end_offset, found.log_directory.path) == (22, str(scene.folders[1]))
    assert [one.base_offset for one in read_batches(found)] == list(range(0, 22, 2))
    scene.logs.abandon()


def test_a_topic_that_is_deleted_before_the_new_place_is_durable_leaves_both(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(lambda: scene.moved)
    scene.moves.cancel(TP)
    scene.logs.delete(TP)
    assert scene.names() == [["delete"], ["delete"]]
    again = scene.logs.create(TP, TOPIC_ID, scene.disk.config)
    append(again, batch())
    scene.continue_until(lambda: not scene.turns)
    assert again.log_end_offset == 1
    assert not again.is_closed


def test_a_log_that_moves_back_waits_until_its_old_place_is_free(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(lambda: scene.moved)
    scene.moves.start(TP, scene.logs.directories[0])
    assert scene.moves.future(TP) is not None
    scene.continue_until(lambda: not scene.turns)
    assert len(scene.moved) == 2
    found = scene.logs.get(TP)
    assert found is not None
    assert (found.log_end_offset, found.log_directory.path) == (20, str(scene.folders[0]))
    assert scene.names() == [["3", "delete"], ["delete"]]


@pytest.mark.parametrize("start", [4, 20])
def test_records_deleted_while_the_checkpoint_is_written_stay_deleted(tmp_path: Path, start: int) -> None:
    scene = Scene(tmp_path)
    scene.moves.start(TP, scene.logs.directories[1])
    is_deleted = False
    for _ in range(500):
        if scene.moved:
            break
        if scene.turns:
            scene.turns.pop(0)()
        if scene.held.jobs:
            move = scene.moves._moves.get(TP)
            if move is not None and move.is_storing and not is_deleted:
                scene.log.increment_log_start_offset(Offset(start), high_watermark=Offset(20))
                scene.logs.passes.checkpoint()
                is_deleted = True
            scene.held.run_next()
    assert is_deleted
    scene.logs.abandon()
    scene.start()
    found = scene.logs.get(TP)
    assert found is not None
    assert found.log_start_offset == start
    scene.logs.abandon()


def test_a_stop_before_the_new_place_is_durable_leaves_one_copy_that_serves(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.until(lambda: scene.moved)
    append(scene.moved[0], batch(2, size=60))
    scene.moves.release()
    scene.logs.stop()
    scene.held.jobs.clear()
    assert scene.names() == [["3"], ["3"]]
    for _ in range(2):
        scene.start()
        found = scene.logs.get(TP)
        assert found is not None
        assert (found.log_end_offset, found.log_directory.path) == (22, str(scene.folders[1]))
        assert [one.base_offset for one in read_batches(found)] == list(range(0, 22, 2))
        assert scene.names() == [["stray"], ["3"]]
        scene.logs.stop()


@pytest.mark.parametrize("is_thread_used", [True, False])
def test_a_move_of_cold_files_reads_them_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_thread_used: bool
) -> None:
    monkeypatch.setattr("pybroker.log.segments.file_records.HOT_TAIL", 0)
    monkeypatch.setattr("pybroker.log.cold_lookup.HOT_TAIL", 0)
    filesystem = ColdFilesystem()
    disk = Disk(tmp_path / "a", filesystem=filesystem, segment_bytes=50_000)
    folders = [tmp_path / "a", tmp_path / "b"]

    def in_thread(work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        filesystem.in_thread(lambda: run_inline(work, done))

    logs = LogManager(
        [str(folder) for folder in folders],
        cluster_id="cluster",
        node_id=BrokerId(1),
        services=disk.services,
        config_of=lambda _: disk.config,
        filesystem=filesystem,
        thread_of=lambda _: in_thread,
    )
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    for _ in range(100):
        append(log, batch(2, size=600))
    for segment in log.segments:
        segment.tail.forget()
        if segment is not log.segments.active:
            segment.let_go()
    filesystem.drop_caches()
    filesystem.waits.clear()
    if not is_thread_used:
        monkeypatch.setattr("pybroker.log.manager.directory_moves._read_first", lambda *_: None)
    turns: list[Callable[[], None]] = []
    moved: list[Log] = []
    moves = DirectoryMoves(logs, later=turns.append, on_moved=lambda _, one: moved.append(one))
    moves.start(TP, logs.directories[1])
    waited: list[tuple[str, int]] = []
    while not moved:
        turns.pop(0)()
        if not moved:
            waited += [one for one in filesystem.waits if one[1] >= 0]
            filesystem.waits.clear()
    assert (waited == []) is is_thread_used
    assert [one.base_offset for one in read_batches(moved[0])] == list(range(0, 200, 2))
    logs.abandon()
