"""The cleaner leaves a log alone while it moves, and afterwards no old value comes back behind its tombstone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.log import Log
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.scenes.compacted_log import records, settings_of
from testing.scenes.logs import TOPIC_ID, TP, Disk, append
from testing.scenes.slices import STEPS, background

RETENTION_MS = 1000


class MovingLog:
    """A compacted log in the first of two directories; the test takes the turns of the moves and of the cleaner."""

    def __init__(self, folder: Path, steps: int = STEPS) -> None:
        self.disk = Disk(
            folder,
            segment_bytes=600,
            cleanup_policy=frozenset({"compact"}),
            delete_retention_ms=RETENTION_MS,
            min_cleanable_dirty_ratio=0.0,
        )
        self.logs = LogManager(
            [str(folder / "a"), str(folder / "b")],
            cluster_id="a-cluster",
            node_id=BrokerId(1),
            services=self.disk.services,
            config_of=lambda _: self.disk.config,
        )
        self.logs.start()
        self.logs.create(TP, TOPIC_ID, self.disk.config)
        self.turns: list[Callable[[], None]] = []
        self.later: list[Callable[[], None]] = []
        self.moves = DirectoryMoves(self.logs, later=self.turns.append, on_moved=lambda _, __: None)
        self.cleaner = LogCleaner(
            self.logs,
            config=settings_of,
            high_watermark=lambda _: self.log.log_end_offset,
            later=lambda _, work: self.later.append(work),
            run=background(lambda _, work: self.later.append(work), steps=steps).run,
        )
        self.cleaner.start()

    @property
    def log(self) -> Log:
        log = self.logs.get(TP)
        assert log is not None
        return log

    def put(self, key: bytes, value: bytes | None) -> None:
        append(self.log, build_batch([Record(Offset(0), self.disk.clock.time_ms(), key, value)]))

    def fill(self, value: bytes) -> None:
        for number in range(10):
            self.put(b"other-%d" % number, value * 100)

    def roll(self) -> None:
        self.log.roll(self.disk.clock.time_ms())

    def begin_move(self) -> None:
        """Begin a move, and let it copy all that there is."""
        (target,) = [one for one in self.logs.directories if one is not self.log.log_directory]
        self.moves.start(TP, target)
        self.turns.pop(0)()

    def finish_move(self) -> None:
        while self.turns:
            self.turns.pop(0)()

    def clean(self, turns: int | None = None) -> None:
        """Let the cleaner look, and take `turns` turns; by default until it has done what it found, four times."""
        for _ in range(4 if turns is None else 1):
            self.cleaner.look()
            while turns != 0 and any(work != self.cleaner.look for work in self.later):
                self.later.pop(0)()
                turns = None if turns is None else turns - 1

    def values(self, key: bytes) -> list[bytes | None]:
        return [value for _, found, value in records(self.log) if found == key]


def with_a_deleted_key(folder: Path, steps: int = STEPS) -> MovingLog:
    scene = MovingLog(folder, steps)
    scene.put(b"user", b"secret")
    scene.fill(b"x")
    scene.put(b"user", None)
    scene.fill(b"y")
    scene.roll()
    return scene


def test_a_value_that_was_deleted_does_not_outlive_its_tombstone_in_a_log_that_moves(tmp_path: Path) -> None:
    scene = with_a_deleted_key(tmp_path)
    scene.begin_move()
    before = records(scene.log)
    scene.clean()
    assert records(scene.log) == before, "it is left alone"
    scene.finish_move()
    assert scene.log.log_directory is scene.logs.directories[1]
    assert records(scene.log) == before
    for _ in range(4):
        scene.disk.clock.advance(5 * RETENTION_MS)
        scene.fill(b"z")
        scene.roll()
        scene.clean()
        assert b"secret" not in scene.values(b"user")
    assert scene.values(b"user") == []


@pytest.mark.parametrize("turns", [3, 7])
def test_a_move_ends_a_compaction_that_is_under_way_and_a_cancelled_move_lets_it_begin_again(tmp_path: Path, turns: int) -> None:
    scene = with_a_deleted_key(tmp_path, steps=2)
    scene.clean(turns)
    under_way = len(records(scene.log))
    scene.begin_move()
    for _ in range(300):
        if scene.later:
            scene.later.pop(0)()
    assert len(records(scene.log)) == under_way
    assert all(worker.log is None for worker in scene.cleaner._workers)
    scene.moves.cancel(TP)
    scene.clean()
    assert len(records(scene.log)) == 11
    assert scene.values(b"user") == [None]
    assert not [path.name for path in Path(scene.log.path).iterdir() if path.suffix in {".cleaned", ".swap"}]


def test_a_log_that_moved_is_cleaned_from_its_start_again(tmp_path: Path) -> None:
    scene = with_a_deleted_key(tmp_path)
    scene.clean()
    assert scene.cleaner._progress.first_dirty_offset(scene.log) > 0
    scene.begin_move()
    scene.finish_move()
    assert scene.cleaner._progress.first_dirty_offset(scene.log) == 0
    scene.disk.clock.advance(5 * RETENTION_MS)
    scene.clean()
    assert scene.values(b"user") == []
    assert scene.cleaner._progress.is_known(scene.log)
