"""When and how fast a log is compacted while records come at a changing rate: the dirty ratio, both lags, the limit of bytes."""

from __future__ import annotations

import random
from pathlib import Path

from pybroker.config.load import load
from pybroker.log.cleaner.cleanable import cleanable
from pybroker.log.files.filesystem import Filesystem
from pybroker.model import Offset
from testing.scenes.compacted_log import CompactedLog

KEYS = 10
MINUTE_MS = 60_000
LAG_MS_MIN, LAG_MS_MAX = 2 * MINUTE_MS, 30 * MINUTE_MS
RATIO = 0.5
COUNTS = (1, 3, 0, 20, 0, 0, 2, 60, 0, 1)
"""How many records come in a minute, again and again."""


def test_ratio_and_lags_hold_in_every_minute_of_a_changing_load(tmp_path: Path) -> None:
    setting = CompactedLog(
        tmp_path,
        min_cleanable_dirty_ratio=RATIO,
        min_compaction_lag_ms=LAG_MS_MIN,
        max_compaction_lag_ms=LAG_MS_MAX,
        segment_ms=LAG_MS_MAX,  # as a topic's settings resolve
    )
    clock, draw, last, cleanings = setting.disk.clock, random.Random(4), 0, 0
    written: dict[int, int] = {}  # when the record at an offset was written
    for minute in range(70):
        for _ in range(COUNTS[minute % len(COUNTS)]):
            written[setting.put((b"k%d" % draw.randrange(KEYS), b"v" * 40))] = clock.time_ms()
        clock.advance(MINUTE_MS)
        before = {one[0] for one in setting.records()}
        due = cleanable(setting.log, Offset(last), high_watermark=setting.log.log_end_offset, now_ms=clock.time_ms())
        setting.clean()
        gone = before - {one[0] for one in setting.records()}
        assert all(clock.time_ms() - written[offset] >= LAG_MS_MIN for offset in gone), "min.compaction.lag.ms"
        if gone:
            assert due.ratio > RATIO or due.is_overdue, "min.cleanable.dirty.ratio"
            cleanings += 1
        last = due.first_uncleanable_offset if due.is_due else last
        after = cleanable(setting.log, Offset(last), high_watermark=setting.log.log_end_offset, now_ms=clock.time_ms())
        assert not after.is_due, "what is due is cleaned, because of its share or of max.compaction.lag.ms"
    assert 3 < cleanings < 35


def test_a_new_rate_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    setting = CompactedLog(tmp_path, segment_bytes=1 << 20, overrides={"log.cleaner.io.max.bytes.per.second": "1000000"})
    for _ in range(40):
        setting.put((b"k", b"v" * 50_000))
    setting.roll()
    setting.turn()
    slow = [setting.turn() for _ in range(6)]
    assert sum(slow) > 0.12, "1 MB a second, 50 kB in a batch"
    setting.settings = load(overrides={"log.cleaner.io.max.bytes.per.second": "100000000"}).config
    setting.turn()  # its delay was chosen before
    fast: list[float] = []
    while not setting.is_idle:
        fast.append(setting.turn())
    assert len(fast) > 1
    assert max(fast) < 0.02, "100 MB a second"


class CountingRenames(Filesystem):
    """A file system that counts renames."""

    def __init__(self) -> None:
        self.renames = 0

    def rename(self, source: str, target: str) -> None:
        self.renames += 1
        super().rename(source, target)
