"""A log moves to another directory while it is written, and a crash at any step leaves one log with everything."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import read_stored
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager import checkpoint_pass, directory_moves
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.work import run_through
from testing.scenes.logs import TOPIC_ID, TP, Disk, Producer, append, batch, delete_old_segments, read_batches


class Crash(BaseException):
    """The end of the process, which no code may catch."""


class Crashing(Filesystem):
    """A file system that crashes at the n-th rename after it is armed."""

    def __init__(self) -> None:
        self.renames_left = -1

    def rename(self, source: str, target: str) -> None:
        if self.renames_left == 0:
            raise Crash
        self.renames_left -= 1
        super().rename(source, target)


class MoveScene:
    """Two directories with the log in the first; the test takes the turns of the moves."""

    def __init__(self, folder: Path, filesystem: Filesystem | None = None) -> None:
        self.folders = [folder / "a", folder / "b"]
        self.disk = Disk(folder, segment_bytes=600)
        self.filesystem = filesystem
        self.start()
        self.log = self.logs.create(TP, TOPIC_ID, self.disk.config)

    def start(self) -> None:
        self.logs = LogManager(
            [str(folder) for folder in self.folders],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=self.disk.services,
            config_of=lambda _: self.disk.config,
            filesystem=self.filesystem,
        )
        self.logs.start()
        self.turns: list[Callable[[], None]] = []
        self.moved: list[tuple[TopicPartition, Log]] = []
        self.moves = DirectoryMoves(self.logs, later=self.turns.append, on_moved=lambda tp, log: self.moved.append((tp, log)))

    def turn(self) -> bool:
        if not self.turns:
            return False
        self.turns.pop(0)()
        return True

    def finish(self) -> None:
        while self.turn():
            pass

    @property
    def target(self) -> str:
        return str(self.folders[1])

    def begin(self) -> None:
        self.moves.start(TP, self.logs.directories[1])

    def names(self) -> list[list[str]]:
        """Return the endings of the names of the partitions' directories, by log directory."""
        return [sorted(entry.name.rpartition("-")[2] for entry in folder.iterdir() if entry.is_dir()) for folder in self.folders]


def offsets(log: Log) -> list[tuple[int, int]]:
    return [(one.base_offset, one.last_offset) for one in read_batches(log)]


def fill(log: Log, count: int = 12) -> None:
    for _ in range(count):
        append(log, batch(2, size=60))


def test_everything_moves(tmp_path: Path) -> None:
    scene = MoveScene(tmp_path)
    producer = Producer(7)
    append(scene.log, batch(producer=producer))
    fill(scene.log)
    before, epochs = offsets(scene.log), list(scene.log.epochs.entries)
    scene.begin()
    future = scene.moves.future(TP)
    assert future is not None
    assert future.log_end_offset == 0
    scene.finish()
    ((tp, moved),) = scene.moved
    assert (tp, moved) == (TP, scene.logs.get(TP))
    assert moved.log_directory.path == scene.target
    assert (offsets(moved), moved.log_end_offset, list(moved.epochs.entries)) == (before, 25, epochs)
    assert moved.topic_id == TOPIC_ID
    assert scene.moves.future(TP) is None
    assert append(moved, batch(producer=producer, sequence=1)) == 25, "it knows its producers"
    assert append(moved, batch(producer=producer, sequence=0)) == 0, "and their last batches"
    assert scene.names() == [["delete"], ["3"]]
    scene.logs.stop()
    scene.start()
    again = scene.logs.get(TP)
    assert again is not None
    assert again.log_end_offset == 26


def test_what_is_written_on_the_way_moves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "PIECE_BYTES", 500)
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.begin()
    for _ in range(5):
        assert scene.turn()
        append(scene.log, batch(1))
    future = scene.moves.future(TP)
    assert future is not None
    assert 0 < future.log_end_offset < scene.log.log_end_offset, "it is on the way"
    scene.finish()
    assert offsets(scene.moved[0][1])[-1] == (28, 28)
    assert len(offsets(scene.moved[0][1])) == 17


@pytest.mark.parametrize("start", [5, 24])
def test_deleted_records_stay_deleted(tmp_path: Path, start: int) -> None:
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.log.increment_log_start_offset(Offset(start), high_watermark=Offset(24))
    scene.begin()
    scene.finish()
    moved = scene.moved[0][1]
    assert (moved.log_start_offset, moved.log_end_offset) == (start, 24)
    scene.logs.abandon()
    scene.start()
    again = scene.logs.get(TP)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (start, 24), "also after a crash"


@pytest.mark.parametrize("steps", [1, 2])
def test_a_checkpoint_that_was_collected_before_the_log_came_has_its_entries(tmp_path: Path, steps: int) -> None:
    """The collection begins before the log serves here, and is written after that."""
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.log.increment_log_start_offset(Offset(5), high_watermark=Offset(24))
    scene.begin()
    stored = f"{scene.target}/{checkpoint.LOG_START_OFFSET_FILE}"
    while not Path(stored).exists():
        assert scene.turn()
    assert scene.moves.future(TP) is not None, "the log is not here yet"
    collection = checkpoint_pass.both(scene.logs.directories[1], scene.logs.all_logs)
    for _ in range(steps):  # the first for recovery points, the second for start offsets
        next(collection)
    scene.finish()
    run_through(collection)()
    recovery_points = read_stored(Filesystem(), f"{scene.target}/{checkpoint.RECOVERY_POINT_FILE}")
    assert recovery_points[TP].offset == 24
    scene.logs.abandon()
    scene.start()
    again = scene.logs.get(TP)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (5, 24)


def test_records_deleted_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "PIECE_BYTES", 300)
    scene = MoveScene(tmp_path)
    fill(scene.log, 20)
    scene.begin()
    scene.turn()
    scene.log.increment_log_start_offset(Offset(31), high_watermark=Offset(40))
    delete_old_segments(scene.log, scene.disk.clock.time_ms())
    scene.finish()
    moved = scene.moved[0][1]
    assert (moved.log_start_offset, moved.log_end_offset) == (31, 40)
    assert offsets(moved)[0] == (30, 31)


def test_a_move_is_given_up(tmp_path: Path) -> None:
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.begin()
    scene.moves.start(TP, scene.logs.directories[0])  # where it is
    scene.finish()
    assert scene.moves.future(TP) is None
    assert scene.names() == [["3"], ["delete"]]
    scene.begin()
    scene.moves.cancel(TP)
    scene.logs.delete(TP)
    scene.finish()
    assert scene.moved == []
    assert scene.names() == [["delete"], ["delete", "delete"]]


def test_a_broken_target_keeps_the_log_where_it_is(tmp_path: Path) -> None:
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.begin()
    scene.logs.directories[1].fail(OSError("broken"))
    scene.finish()
    assert scene.moved == []
    assert scene.moves.future(TP) is None
    assert append(scene.log, batch()) == 24
    with pytest.raises(KafkaError) as raised:
        scene.begin()
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_name_without_room_for_the_mark(tmp_path: Path) -> None:
    scene = MoveScene(tmp_path)
    tp = TopicPartition("x" * 230, 0)
    scene.logs.create(tp, TOPIC_ID, scene.disk.config)
    with pytest.raises(KafkaError) as raised:
        scene.moves.start(tp, scene.logs.directories[1 - scene.logs.directories.index(scene.logs.get(tp).log_directory)])  # type: ignore[union-attr]  # it was just made
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_crash_on_the_way_begins_from_the_start(tmp_path: Path, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "PIECE_BYTES", 500)
    scene = MoveScene(tmp_path)
    fill(scene.log)
    before = offsets(scene.log)
    scene.begin()
    for _ in range(turns):
        scene.turn()
    scene.moves.release()
    scene.logs.abandon()
    scene.start()
    log = scene.logs.get(TP)
    assert log is not None
    assert (log.log_directory.path, offsets(log)) == (str(scene.folders[0]), before)
    assert scene.names() == [["3"], ["delete"]]
    scene.moves.resume()
    scene.finish()
    assert offsets(scene.moved[0][1]) == before
    assert scene.logs.get(TP) is scene.moved[0][1]


@pytest.mark.parametrize("renames", range(5))
def test_a_crash_while_it_changes_places(tmp_path: Path, renames: int) -> None:
    """The crash meets each rename of the last step, because checkpoints are renamed into place too."""
    filesystem = Crashing()
    scene = MoveScene(tmp_path, filesystem)
    fill(scene.log)
    scene.log.increment_log_start_offset(Offset(3), high_watermark=Offset(24))
    before = offsets(scene.log)
    scene.begin()
    filesystem.renames_left = renames
    try:
        scene.finish()
    except Crash:
        assert scene.moved == []
    filesystem.renames_left = -1
    scene.moves.release()
    scene.logs.abandon()
    scene.start()
    scene.moves.resume()
    scene.finish()
    log = scene.logs.get(TP)
    assert log is not None
    assert offsets(log)[-1] == before[-1]
    assert log.log_end_offset == 24
    assert log.log_directory.path == scene.target
    assert [names.count("3") for names in scene.names()] == [0, 1]


def test_the_rest_of_an_unfinished_copy_without_its_original_is_reported_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory with the log was given up: consumers must notice what is gone by new leader epochs."""
    monkeypatch.setattr(directory_moves, "PIECE_BYTES", 300)
    scene = MoveScene(tmp_path)
    fill(scene.log)
    scene.begin()
    for _ in range(3):
        scene.turn()
    future = scene.moves.future(TP)
    assert future is not None
    reached = future.log_end_offset
    assert 0 < reached < scene.log.log_end_offset
    scene.logs.abandon()
    shutil.rmtree(scene.log.path)
    scene.start()
    log = scene.logs.get(TP)
    assert log is not None
    assert log.log_end_offset == reached
    assert [(one.first_offset, one.end_offset) for one in log.lost] == [(reached, -1)]
