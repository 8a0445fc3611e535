from __future__ import annotations

import io
import threading

import pytest

from pybroker.spark.progress import Progress, Standing, bar, duration, line


def test_a_line_has_the_estimated_end_records_rate_and_lag() -> None:
    standing = Standing(rows=30_000, total=90_000, size=20_000_000)
    assert line("replay", standing, seconds=10, rows_before=10_000) == (
        "replay: about 30 s left, 30,000 records, 2,000 records/s, 2.0 MB/s, lag 60,000"
    )


def test_what_is_left_is_estimated_by_the_latest_pace() -> None:
    standing = Standing(rows=30_000, total=90_000)
    assert line("copy", standing, seconds=10, pace=600.0).startswith("copy: about 2 min left, ")


def test_a_terminal_has_a_bar_which_is_gone_at_the_end() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out, seen = Terminal(), threading.Event()

    def look() -> Standing:
        seen.set()
        return Standing(rows=1, total=4)

    with Progress("copy", look, out=out):
        assert seen.wait(10)
    drawn = out.getvalue().split("\r\x1b[K")
    assert drawn[1].startswith("[##        ]  25% copy: about ")
    assert drawn[-1] == ""


def test_a_narrow_line_has_whole_numbers_and_the_estimate() -> None:
    standing = Standing(rows=1_000_000_000, total=4_000_000_000, size=9_000_000_000_000)
    text = bar(standing) + line("import", standing, seconds=3600, width=79 - len(bar(standing)))
    assert text == "[##        ]  25% import: about 3.0 h left, 1,000,000,000 records"
    assert len(text + ", 277,778 records/s") > 79


def test_a_line_leaves_out_what_is_not_known() -> None:
    assert line("archive", Standing(rows=5), seconds=0) == "archive: 5 records, 0 records/s"


@pytest.mark.parametrize(("seconds", "text"), [(42, "42 s"), (150, "2 min"), (9000, "2.5 h")])
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_progress_continues_after_a_look_that_fails() -> None:
    out, looks, seen = io.StringIO(), iter([Standing(1), None, Standing(3)]), threading.Event()

    def look() -> Standing:
        standing = next(looks)
        if standing is None:
            raise OSError("no broker")
        if standing.rows == 3:
            seen.set()
        return standing

    with Progress("job", look, interval_s=0.001, out=out):
        assert seen.wait(10)
    assert [text.split(",")[0] for text in out.getvalue().splitlines()] == ["job: 1 records", "job: 3 records"]
