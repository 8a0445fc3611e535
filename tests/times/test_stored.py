"""The time that a test has moved is that of the next process with the same data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker.clock import SystemClock
from pybroker.times.lanes import LOGS, PARTS
from pybroker.times.stored import NAME, StoredTimeError, offsets_ms_of, stored_lanes
from pybroker.times.times import GROUPS

DAY_MS = 86_400_000


async def test_time_goes_on_from_what_an_earlier_process_has_left(tmp_path: Path) -> None:
    lanes = stored_lanes(tmp_path)
    assert lanes.offsets_ms == dict.fromkeys(PARTS, 0)
    await lanes.advance(DAY_MS, [LOGS])
    await lanes.advance(DAY_MS, PARTS)
    lanes.close()
    after = stored_lanes(tmp_path)
    assert after.offsets_ms == {**dict.fromkeys(PARTS, DAY_MS), LOGS: 2 * DAY_MS}
    assert 0 <= after[GROUPS].time_ms() - SystemClock().time_ms() - DAY_MS < DAY_MS
    assert os.listdir(tmp_path) == [NAME]  # noqa: PTH208


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"logs": 1}', '{"logs": "1", "groups": 1, "transactions": 1, "requests": 1}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(StoredTimeError, match=NAME):
        offsets_ms_of(tmp_path / NAME)
