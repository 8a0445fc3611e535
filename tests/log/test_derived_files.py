"""Transaction indexes and producers' snapshots that are damaged while the broker is down: a start notices it, and mends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.log.checkpoints.checkpoint import CLEAN_SHUTDOWN_FILE
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.producers import producer_snapshot
from pybroker.records.control import ControlType
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, Producer
from testing.simulation.disk import SimulatedDisk
from tests.log.test_cleaner_faults import committed, transactional

ENTRY_BYTES = 34
OPEN = Producer(3)


class Watched(Filesystem):
    """A file system that notes the names of the files that it opens."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        self.opened.append(Path(path).name)
        return super().open(path, writable=writable, create=create)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def cut_by_an_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-ENTRY_BYTES])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def stopped(tmp_path: Path) -> tuple[CompactedLog, list[Path]]:
    """Return a log whose broker has stopped cleanly, with an open transaction, and its transaction indexes."""
    setting = transactional(tmp_path, Filesystem())
    setting.put((b"active", b"aborted"), producer=Producer(1), sequence=6, is_transactional=True)
    setting.put((b"active", b"open"), producer=OPEN, sequence=0, is_transactional=True)
    setting.end_transaction(Producer(1), ControlType.ABORT)
    setting.logs.stop()
    indexes = sorted(setting.disk.log_path.glob("*.txnindex"))
    assert [path.stat().st_size // ENTRY_BYTES for path in indexes] == [1, 1, 1, 1]
    return setting, indexes


def read(setting: CompactedLog) -> tuple[list[tuple[int, bytes | None, bytes | None]], int | None]:
    """Start a broker, and return what consumers with read_committed get, and where the open transaction begins."""
    setting.start()
    log = setting.logs.get(setting.log.topic_partition)
    assert log is not None
    setting.log = log
    return committed(log), log.producers.first_unstable_offset


@pytest.mark.parametrize("damage", [cut, cut_by_an_entry, empty, Path.unlink])
@pytest.mark.parametrize("which", range(4), ids=["first", "second", "third", "active"])
def test_a_damaged_transaction_index_is_made_again_after_a_clean_stop(
    tmp_path: Path, damage: Callable[[Path], None], which: int, caplog: pytest.LogCaptureFixture
) -> None:
    setting, indexes = stopped(tmp_path)
    sound = read(setting)
    setting.logs.stop()
    contents = [path.read_bytes() for path in indexes]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    damage(indexes[which])
    assert read(setting) == sound
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"{indexes[which]} is damaged" in warning
    setting.logs.stop()
    assert [path.read_bytes() for path in indexes] == contents


def test_all_derived_files_may_be_gone_after_a_clean_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setting, indexes = stopped(tmp_path)
    sound = read(setting)
    setting.logs.stop()
    for path in (*indexes, *setting.disk.log_path.glob("*.snapshot")):
        path.unlink()
    assert read(setting) == sound
    assert len([record for record in caplog.records if "the broker makes it again" in record.getMessage()]) == len(indexes)
    setting.logs.stop()


def test_snapshots_that_are_gone_cost_no_transaction_and_no_producer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setting, _ = stopped(tmp_path)
    sound = read(setting)
    assert sound[1] is not None
    setting.logs.stop()
    for path in setting.disk.log_path.glob("*.snapshot"):
        path.unlink()
    assert read(setting) == sound
    assert "has no snapshot of its producers" in caplog.text
    end = setting.log.log_end_offset
    setting.put((b"active", b"open"), producer=OPEN, sequence=0, is_transactional=True)
    assert setting.log.log_end_offset == end, "the producer has sent its batch again"
    setting.logs.stop()


def test_a_torn_transaction_index_is_noticed_where_nothing_was_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka and older versions of this broker wrote only the first line of the marker."""
    setting, indexes = stopped(tmp_path)
    sound = read(setting)
    setting.logs.stop()
    marker = tmp_path / CLEAN_SHUTDOWN_FILE
    marker.write_text(marker.read_text().split("\n", maxsplit=1)[0])
    cut(indexes[0])
    assert read(setting) == sound
    assert f"{indexes[0]} is damaged" in caplog.text
    setting.logs.stop()


def test_a_torn_transaction_index_is_noticed_after_an_unclean_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setting, indexes = stopped(tmp_path)
    sound = read(setting)
    setting.logs.stop()
    (tmp_path / CLEAN_SHUTDOWN_FILE).unlink()
    cut(indexes[0])
    assert read(setting) == sound
    assert f"{indexes[0]} is damaged" in caplog.text
    setting.logs.stop()


def test_a_usual_start_opens_no_file_of_a_sealed_segment(tmp_path: Path) -> None:
    """A start only looks at the size of each transaction index that there is."""
    setting, indexes = stopped(tmp_path)
    setting.disk.filesystem = watched = Watched()
    setting.start()
    assert {name.partition(".")[0] for name in watched.opened if name.endswith((".log", "index"))} == {indexes[-1].stem}
    setting.logs.stop()


@pytest.mark.parametrize("flush_messages", [1, 2**63 - 1])
def test_the_snapshot_of_a_clean_stop_is_durable(flush_messages: int) -> None:
    """Compaction may have left no batch of a producer, so a start that reads all batches would not find it."""
    disk = SimulatedDisk(ManualClock(START_MS))
    disk.make_directory("/d")
    disk.sync_directory("/")
    setting = CompactedLog(Path("/d"), filesystem=disk, flush_messages=flush_messages)
    setting.put((b"k", b"v"), producer=OPEN)
    setting.logs.stop()
    disk.crash()
    found = [one.path for one in disk.list(f"/d/{setting.log.topic_partition}") if one.name.endswith(".snapshot")]
    assert [len(producer_snapshot.read(disk, path)) for path in found] == [1]
