"""No change of a log between two steps of the cleaner, while a disk is slow or the cleaner waits for its turn, loses anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.log.cleaner.replace import SegmentsChangedError, replace
from pybroker.log.cleaner.rewrite import new_target
from pybroker.log.log import Log
from pybroker.model import Offset
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.cut_log import CutLog
from testing.scenes.logs import START_MS, Disk, HeldThread, append, batch, read_batches

END = 600
STEPS_MAX = 40


def cuttable(folder: Path, second_size: int = 100) -> CutLog:
    """Return a log with records 0 to 299 in its first segment and 300 to 599 in the active one, which begins at 240."""
    scene = CutLog(folder, disk=Disk(folder, retention_ms=-1, file_delete_delay_ms=0))
    scene.fill()
    scene.log.roll(START_MS)
    scene.log.flush()
    scene.fill(size=second_size)
    delete_records(scene.log, 240)
    return scene


def delete_records(log: Log, offset: int) -> None:
    log.increment_log_start_offset(Offset(offset), high_watermark=log.log_end_offset)


def overtaken(scene: CutLog, monkeypatch: pytest.MonkeyPatch, step: int, change: Callable[[], object]) -> list[int]:
    """Let the cleaner work with a slow disk, and make a change before its disk has done `step` of its steps, or at the end.

    A record is appended between all steps. Returns the offsets of those records.
    """
    held, appended = HeldThread(), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(scene.log.log_directory, "run_in_thread", held)
        scene.give_back(looks=1)
        assert held.jobs
        for number in range(STEPS_MAX):
            if number == step or not held.jobs:
                change()
            if not held.jobs:
                break
            held.run_next()
            appended.append(append(scene.log, batch(size=100, timestamp=START_MS + 100_000)))
            while scene.turns and scene.turns[0] != scene.cleaner.look:
                scene.turns.pop(0)()
        assert not held.jobs
    return appended


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("deletes_head", [True, False])
@pytest.mark.parametrize("start", [310, 570, END])
def test_a_start_that_moves_into_the_active_segment_while_the_head_is_cut_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, start: int, *, deletes_head: bool
) -> None:
    scene = cuttable(tmp_path, second_size=100 if deletes_head else 73)

    def change() -> None:
        delete_records(scene.log, start)
        if deletes_head:
            scene.log.delete_below_start()
            scene.logs.remove_due(START_MS)

    appended, log = overtaken(scene, monkeypatch, step, change), scene.log
    assert scene.cleaner.uncleanable_count == 0
    assert not log.log_directory.is_offline, "a file that was removed meanwhile is no failure of the disk"
    for _ in range(2):
        wanted = list(range(start, log.log_end_offset))
        assert log.log_end_offset == END + len(appended)
        assert [one.offset for found in read_batches(log) for one in found.records() if one.offset >= start] == wanted
        scene.cut(START_MS)
    scene.logs.passes.checkpoint_start_offsets()
    scene.logs.abandon()
    scene.start()
    assert not scene.log.lost
    assert scene.visible() == list(range(start, END + len(appended)))


@pytest.mark.parametrize("turns", range(2, 40, 3))
@pytest.mark.parametrize("offset", [20, 35])
def test_segments_that_are_deleted_while_a_log_is_compacted_leave_the_rest_to_the_next_look(
    tmp_path: Path, turns: int, offset: int
) -> None:
    """Their files may be gone when the cleaner comes to them: that is no failure of the disk, and no damage."""
    slow = {"log.cleaner.io.max.bytes.per.second": "2000"}
    scene = CompactedLog(tmp_path, overrides=slow, file_delete_delay_ms=0, segment_bytes=200)
    for number in range(60):
        scene.put((b"key-%d" % (number % 20), b"x" * 60))
    scene.roll()
    for _ in range(turns):
        scene.turn()
    delete_records(scene.log, offset)
    assert scene.log.delete_below_start()
    scene.logs.remove_due(START_MS + 1)
    for _ in range(2):
        scene.clean()
    assert not scene.log.log_directory.is_offline
    assert scene.cleaner.uncleanable_count == 0
    assert [found for found, _, _ in scene.records()] == list(range(40, 60))


def test_the_active_segment_is_never_replaced(tmp_path: Path) -> None:
    scene = cuttable(tmp_path)
    active = scene.log.segments.active
    target = new_target(scene.log, Offset(500), START_MS)
    steps = replace(scene.log, [active], target, truncations=scene.log.truncations)
    with pytest.raises(SegmentsChangedError, match="appends to the segment"):
        next(steps)
    assert scene.log.segments.active is active
    assert scene.log.replacement is None
