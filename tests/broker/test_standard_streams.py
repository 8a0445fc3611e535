"""Lines of the log on a standard error that takes no more, and the ready line on such a standard output."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pty
import re
import socket
import sys
import tty
from collections.abc import Callable, Iterator

import pytest

from pybroker.broker.lifecycle import Lifecycle
from pybroker.broker.standard_streams import StandardError, Stream, lines_dropped
from pybroker.model import BrokerId
from pybroker.network.limits import BoundListener
from testing.waiting import turned_until, until

LINES = 3_000
TEXT = "x" * 150
NOTICE = re.compile(r"(\d+) lines of the log were dropped")
Ends = tuple[int, int]


def pipe() -> Ends:
    return os.pipe()


def terminal() -> Ends:
    reading, writing = pty.openpty()
    tty.setraw(writing)  # line ends stay as they are
    return reading, writing


def cooked_terminal() -> Ends:
    return pty.openpty()


@pytest.fixture
def opened() -> Iterator[Callable[[Callable[[], Ends]], Ends]]:
    made: list[Ends] = []

    def ends(kind: Callable[[], Ends]) -> Ends:
        made.append(kind())
        os.set_blocking(made[-1][0], False)
        return made[-1]

    yield ends
    for reading, writing in made:
        os.close(reading)
        os.close(writing)


def log(handler: logging.Handler, number: int, text: str = TEXT) -> None:
    handler.handle(logging.makeLogRecord({"msg": f"{number} {text}", "levelno": logging.INFO}))


def read_all(descriptor: int) -> str:
    """Read what is there."""
    text = b""
    while True:
        try:
            piece = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return text.decode()
        if not piece:
            return text.decode()
        text += piece


@pytest.mark.parametrize("kind", [pipe, terminal, cooked_terminal])
def test_lines_that_no_program_reads_are_dropped_and_counted(
    kind: Callable[[], Ends], opened: Callable[[Callable[[], Ends]], Ends]
) -> None:
    reading, writing = opened(kind)
    handler = StandardError(writing)
    for number in range(LINES):
        log(handler, number)
    assert 0 < handler.lines_dropped < LINES
    text = ""

    def all_read(logged: int) -> bool:
        nonlocal text
        handler.flush()
        text += read_all(reading)
        return text.count(TEXT) == logged - handler.lines_dropped

    until(lambda: all_read(LINES), "the lines that were not dropped")
    log(handler, LINES)
    until(lambda: all_read(LINES + 1), "the line after those that were dropped")
    notices = [int(notice[1]) for notice in map(NOTICE.match, text.splitlines()) if notice]
    numbers = [int(line.split()[0]) for line in text.splitlines() if line.endswith(TEXT)]
    assert len(notices) == 1 or kind is not pipe, "a full terminal takes more a moment later, without a reader"
    assert sum(notices) == handler.lines_dropped == LINES + 1 - len(numbers)
    assert numbers == sorted(set(numbers)), "lines are whole and in order"
    assert numbers[-1] == LINES
    assert os.get_blocking(writing), "the mode belongs to all processes with this stream"


def test_a_line_that_has_begun_is_finished_first(opened: Callable[[Callable[[], Ends]], Ends]) -> None:
    reading, writing = opened(pipe)
    handler = StandardError(writing)
    log(handler, 1, "a" * 100_000)
    log(handler, 2, "b")
    assert handler.lines_dropped == 1
    text = read_all(reading)
    log(handler, 3, "c")
    lines = (text + read_all(reading)).splitlines()
    assert lines[0] == "1 " + "a" * 100_000
    assert NOTICE.match(lines[1])
    assert lines[2:] == ["3 c"]


def test_a_reader_that_is_gone_costs_only_lines() -> None:
    reading, writing = os.pipe()
    handler = StandardError(writing)
    logging.getLogger().addHandler(handler)
    before = lines_dropped()
    os.close(reading)
    try:
        log(handler, 1)
        log(handler, 2)
    finally:
        logging.getLogger().removeHandler(handler)
        os.close(writing)
    assert handler.lines_dropped == 2
    assert before == 0


async def test_the_ready_line_waits_for_its_reader_and_the_loop_does_not(
    opened: Callable[[Callable[[], Ends]], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = opened(pipe)
    full = Stream(writing)
    while full.write_some(b"x"):
        pass
    full.close()
    with os.fdopen(os.dup(writing), "w") as output:
        monkeypatch.setattr(sys, "stdout", output)

        async def groups_loaded() -> None:
            """Return at once."""

        bound = [BoundListener(name="PLAINTEXT", host="127.0.0.1", port=9092)]
        announcing = asyncio.create_task(Lifecycle().announce(BrokerId(1), bound, groups_loaded))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not announcing.done()
        read_all(reading)
        await turned_until(announcing.done, "the ready line is written")
    assert read_all(reading) == "READY 127.0.0.1:9092\n"


def test_a_descriptor_of_any_number_is_written() -> None:
    """A process may have thousands open; a socket is not opened again."""
    reading, writing = socket.socketpair()
    with reading, writing:
        high = fcntl.fcntl(writing, fcntl.F_DUPFD_CLOEXEC, 1_500)
        try:
            assert Stream(high).write_some(b"text") == 4
            assert reading.recv(10) == b"text"
        finally:
            os.close(high)
