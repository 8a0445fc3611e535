"""The records that retention inside a segment leaves are the same after a restart, in another directory, and as a copy with other
file times.

Also: a pass that deletes many segments gives the loop back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import run_through
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.cut_log import CutLog
from testing.scenes.held_work import HeldWork
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch

CUT_MS = START_MS + 90_000
END = 300
START = 240
OLD_MAGIC = [(magic, codec) for magic in (0, 1) for codec in (CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4)]


def found(log: Log) -> list[object]:
    """Return where the log begins, and the offset of each time and of the largest time."""
    lookups = [run_through(log.offset_for_timestamp(START_MS + second * 500)) for second in range(-1, 202)]
    return [log.log_start_offset, log.log_end_offset, lookups, run_through(log.offset_of_max_timestamp())]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_restart_and_a_copy_with_other_file_times_change_nothing(tmp_path: Path, codec: CompressionType) -> None:
    scene = CutLog(tmp_path / "one")
    scene.fill(codec)
    scene.cut(CUT_MS)
    expected = found(scene.log)
    exact = [one.offset for one in expected[2] if one is not None]  # type: ignore[attr-defined]
    assert exact == [max(START, 3 * -(-half // 2)) for half in range(-1, 199)]
    assert scene.log.segments[0].base_offset == START
    scene.logs.stop()
    for number, modified_s in enumerate((0, 2_000_000_000)):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(scene.disk.path, copy)
        for path in copy.rglob("*"):
            os.utime(path, (modified_s, modified_s))
        again = CutLog(copy)
        assert found(again.log) == expected
        again.cut(CUT_MS)
        assert found(again.log) == expected, "nothing more is due"
        again.cut(CUT_MS + 5000)
        assert again.visible() == list(range(START + 15, END))
        again.logs.stop()
    again = CutLog(tmp_path / "one")
    assert found(again.log) == expected
    again.logs.stop()


def test_a_move_to_another_directory_changes_nothing(tmp_path: Path) -> None:
    config = Disk(tmp_path, retention_ms=10_000, file_delete_delay_ms=0).config
    clock = ManualClock(START_MS)
    logs = LogManager(
        [str(tmp_path / "a"), str(tmp_path / "b")],
        cluster_id="cluster",
        node_id=BrokerId(1),
        services=LogServices(clock=clock),
        config_of=lambda _: config,
    )
    logs.start()
    log = logs.create(TP, TOPIC_ID, config)
    for second in range(100):
        append(log, batch(3, size=100, timestamp=START_MS + second * 1000))
    logs.passes.clean_up(CUT_MS)
    expected = found(log)
    turns: list[Callable[[], None]] = []
    (target,) = (one for one in logs.directories if one is not log.log_directory)
    clock.advance(10**9)  # the files of the move are new
    DirectoryMoves(logs, later=turns.append, on_moved=lambda _, __: None).start(TP, target)
    while turns:
        turns.pop(0)()
    moved = logs.get(TP)
    assert moved is not None
    assert moved.log_directory is target
    assert found(moved) == expected
    logs.passes.clean_up(CUT_MS + 5000)
    assert moved.log_start_offset == START + 15
    logs.stop()


@pytest.mark.parametrize(("magic", "codec"), OLD_MAGIC)
def test_messages_of_old_clients_are_found_to_the_record_and_cut_there(
    tmp_path: Path, magic: int, codec: CompressionType
) -> None:
    scene = CutLog(tmp_path)
    for second in range(0, 100, 4):
        records = [Record(Offset(n), START_MS + (second + n) * 1000, b"k", bytes(300)) for n in range(4)]
        data = bytearray(build_message_set(records, magic=magic, compression=codec))
        scene.log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=START_MS, request_version=magic)  # type: ignore[arg-type]
    scene.cut(CUT_MS + 2000)
    has_times = magic == 1
    assert scene.visible() == list(range(82 if has_times else 0, 100)), "messages of magic 0 have no time"
    for second in range(100):
        one = run_through(scene.log.offset_for_timestamp(START_MS + second * 1000))
        assert (one is not None) == has_times
        assert one is None or one.offset == max(82, second)
    largest = run_through(scene.log.offset_of_max_timestamp())
    assert (largest.offset if largest is not None else None) == (99 if has_times else None)
    scene.logs.stop()


def test_the_offset_of_the_largest_time_is_right_after_compaction(tmp_path: Path) -> None:
    scene = CompactedLog(tmp_path)
    for at, key in ((50, b"a"), (90, b"b"), (70, b"c"), (90, b"a"), (10, b"b")):
        scene.append(build_batch([Record(Offset(0), START_MS + at * 1000, key, b"%d" % at * 100)]))
    scene.roll()
    scene.put((b"end", b"x"))
    scene.clean()
    assert [offset for offset, _, _ in scene.records()] == [2, 3, 4, 5]
    largest = run_through(scene.log.offset_of_max_timestamp())
    assert largest is not None
    assert (largest.offset, largest.timestamp) == (3, START_MS + 90_000), "the first one with that time is compacted away"
    scene.logs.stop()


def test_deleting_many_segments_gives_the_loop_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path, retention_ms=10_000, segment_bytes=200, file_delete_delay_ms=0)
    held = HeldWork()
    scene = CutLog(tmp_path, disk=disk, run_work=held)
    for _ in range(100):
        append(scene.log, batch(size=100))
    scene.logs.passes.clean_up(START_MS + 10**8)
    counts = [len(scene.log.segments)]
    while held.proceed():
        counts.append(len(scene.log.segments))
    assert counts[-1] == 1
    assert max(before - after for before, after in pairwise(counts)) == 1
    scene.logs.passes.clean_up(START_MS + 10**8)
    held.finish()
    assert scene.log.log_start_offset == scene.log.log_end_offset, "the next pass is not left out"
    scene.logs.stop()
