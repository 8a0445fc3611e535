"""A retry of what was compacted away is known, also when a recovery reads the log anew from below."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.log import producer_snapshot
from pybroker.log.batch_scan import OFFSET_END
from pybroker.log.log import Log
from tests.log.support import START_MS, Disk, Producer, append, batch

COMPACT = frozenset({"compact"})


def gapped(tmp_path: Path, *, is_compacted: bool = True) -> tuple[Disk, Log]:
    """A log killed after compaction took the second batch of the first segment, the last one of producer 7.

    Offsets: 0 and 1 of producer 7, 2 and 3 of it again, 4 and 5 of nobody; then a new segment.
    """
    disk = Disk(tmp_path, cleanup_policy=COMPACT)
    log = disk.create()
    for sequence in (0, 2):
        append(log, batch(2, producer=Producer(7), sequence=sequence))
    append(log, batch(2))
    log.roll(START_MS)
    append(log, batch(1))
    (_, first), (position, lost), (end, _) = list(log.segments[0].scan(0))[:3]
    assert (first.base_offset, lost.base_offset) == (0, 2)
    log.close()
    path = Path(log.segments[0].path)
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[end:] if is_compacted else data)
    return disk, disk.open(recovery_point=0, gaps_below=OFFSET_END)


def test_a_retry_of_a_batch_that_was_compacted_away_is_a_duplicate(tmp_path: Path) -> None:
    _, log = gapped(tmp_path)
    assert log.producers.producers[7].last_sequence == 3
    assert append(log, batch(2, producer=Producer(7), sequence=2)) == 2
    assert log.log_end_offset == 7, "nothing was written"
    assert append(log, batch(2, producer=Producer(7), sequence=4)) == 7


def test_a_later_start_knows_it_too(tmp_path: Path) -> None:
    disk, log = gapped(tmp_path)
    log.close()
    again = disk.open(was_clean=True)
    assert append(again, batch(2, producer=Producer(7), sequence=2)) == 2


def test_a_snapshot_is_not_believed_against_the_log(tmp_path: Path) -> None:
    """It may be of what was cut off before, at an offset that another batch has now."""
    disk, log = gapped(tmp_path)
    log.close()
    stale = log.producers.producers[7].copy()
    stale.add(4, 5, 1, START_MS)  # sequences 4 and 5 at the offsets 4 and 5, which are nobody's
    stale.producer_id = 8
    producer_snapshot.write(disk.filesystem, producer_snapshot.path(str(disk.log_path), 6), [stale])
    again = disk.open(recovery_point=0, gaps_below=OFFSET_END)
    assert 8 not in again.producers.producers


@pytest.mark.parametrize("damage", [b"", b"\x00" * 52])
def test_a_torn_snapshot_says_nothing(tmp_path: Path, damage: bytes) -> None:
    disk, log = gapped(tmp_path)
    log.close()
    for path in disk.log_path.glob("*.snapshot"):
        path.write_bytes(damage)
    again = disk.open(recovery_point=0, gaps_below=OFFSET_END)
    assert again.producers.producers[7].last_sequence == 1
