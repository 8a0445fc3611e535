from __future__ import annotations

import io
import threading

import pytest

from pybroker.spark.progress import Progress, Standing, duration, line


def test_a_line_has_rows_rate_lag_and_the_estimated_end() -> None:
    standing = Standing(rows=30_000, total=90_000, size=20_000_000)
    assert line("replay", standing, seconds=10, rows_before=10_000) == (
        "replay: 30,000 rows, 2,000 rows/s, 2.0 MB/s, lag 60,000, about 30 s left"
    )


def test_what_is_left_is_estimated_by_the_latest_pace() -> None:
    standing = Standing(rows=30_000, total=90_000)
    assert line("copy", standing, seconds=10, pace=600.0).endswith(", about 100 s left".replace("100 s", "2 min"))


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
    assert drawn[1].startswith("[#####               ]  25% copy: 1 rows")
    assert drawn[-1] == ""


def test_a_line_leaves_out_what_is_not_known() -> None:
    assert line("archive", Standing(rows=5), seconds=0) == "archive: 5 rows, 0 rows/s"


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
    assert [text.split(",")[0] for text in out.getvalue().splitlines()] == ["job: 1 rows", "job: 3 rows"]
