"""Ids may be long, and lines of the log are not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pybroker.listed import SHOWN_MAX, cut_short
from tests.api.transactions import Producer, broker

LONG = "t" * 32_000
DAY_MS = 86_400_000


def test_a_short_name_is_shown_as_it_is() -> None:
    assert cut_short("t" * SHOWN_MAX) == "t" * SHOWN_MAX
    assert cut_short(LONG) == "t" * SHOWN_MAX + "... (32000 characters)"


async def test_a_time_out_and_a_removal_show_the_begin_of_an_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    whole = await broker(tmp_path)
    producer = Producer(whole, version=2, tid=LONG)
    await producer.init(timeout_ms=1_000)
    await producer.send(0, b"a")
    for _ in range(10):
        whole.pass_time(1_000)
    whole.pass_time(8 * DAY_MS)
    lines = [line for line in caplog.messages if "ttt" in line]
    assert [cut_short(LONG) in line for line in lines] == [True, True]
    assert ["is aborted" in line for line in lines] == [True, False]
    assert "is removed" in lines[-1]
    assert max(map(len, lines)) < 400
