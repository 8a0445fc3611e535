"""A broker whose standard error or standard output is a pipe or a terminal that no program reads, or is closed at the start."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.process.broker import is_kafka
from testing.waiting import Deadline, line_of, until
from testing.wire.raw import API_VERSIONS, Connection

pytestmark = pytest.mark.skipif(is_kafka(), reason="about our own log")
STRANGERS = 1_000
"""Each costs a line of more than 100 bytes, and a pipe holds 64 kB."""
OF_STRANGERS = ("--log-level", "ERROR", "--log-level", "pybroker.network=INFO")
NOTICE = re.compile(r"(\d+) lines of the log were dropped.*\n.*Closing.*\n")
TIMEOUT_S = 60


@contextmanager
def started(
    folder: Path, *, port: int = 0, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Start a broker whose log has lines of strangers only; kill it at the end if it still runs."""
    command = [sys.executable, "-m", "pybroker", "start", "--port", str(port), "--data-dir", str(folder / "data"), *OF_STRANGERS]
    with subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return line_of(process.stdout, "the ready line").split()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def send_garbage(bootstrap: str, count: int) -> None:
    for _ in range(count):
        with Connection(bootstrap) as stranger, contextlib.suppress(ConnectionResetError):
            stranger.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert stranger.socket.recv(1) == b"", "the broker closes the connection"


def assert_serves(bootstrap: str) -> None:
    with Connection(bootstrap) as connection:
        assert connection.call(API_VERSIONS, 0, b"")[:2] == b"\0\0"


def read_until(descriptor: int, is_all: Callable[[str], object], what: str) -> str:
    text, deadline = b"", Deadline(what)
    while not is_all(text.decode()):
        deadline.check()
        if select.select([descriptor], [], [], 0.1)[0]:
            text += os.read(descriptor, 1 << 16)
    return text.decode()


def test_clients_are_served_while_no_program_reads_standard_error_and_lines_are_counted(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        bootstrap = address(process)
        send_garbage(bootstrap, STRANGERS)
        assert_serves(bootstrap)
        assert process.stderr is not None
        descriptor = process.stderr.fileno()
        log = read_until(descriptor, lambda text: not select.select([descriptor], [], [], 0)[0], "the pipe is empty")
        send_garbage(bootstrap, 1)
        log += read_until(descriptor, NOTICE.search, "the number of dropped lines")
        notice = NOTICE.search(log)
        assert notice is not None
        assert log.count("Closing") + int(notice[1]) == STRANGERS + 1
        assert int(notice[1]) > 0


def test_a_signal_stops_a_broker_whose_standard_error_no_program_reads(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        send_garbage(address(process), STRANGERS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_clients_are_served_while_standard_output_does_not_take_the_ready_line(tmp_path: Path) -> None:
    port = free_port()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)

    with started(tmp_path, port=port, stdout=writing) as process:
        os.close(writing)
        until(lambda: listens(port), "the broker listens")
        assert_serves(f"127.0.0.1:{port}")
        assert read_until(reading, lambda text: text.endswith("\n"), "the ready line").strip("\0") == f"READY 127.0.0.1:{port}\n"
        os.close(reading)
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_clients_are_served_and_a_signal_stops_a_broker_whose_terminal_stands_still(tmp_path: Path) -> None:
    reading, writing = pty.openpty()
    try:
        with started(tmp_path, stderr=writing) as process:
            bootstrap = address(process)
            send_garbage(bootstrap, STRANGERS)
            assert_serves(bootstrap)
            assert os.get_blocking(writing), "the mode belongs to all processes of the terminal"
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
    finally:
        os.close(writing)
        os.close(reading)


@pytest.mark.parametrize("command", ["start --port {port} --data-dir {data}", "container"])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_broker_whose_standard_streams_are_closed_serves_and_stops(command: str, closed: str, tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    variables = (
        {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "KAFKA_LOG_DIRS": str(data)} if command == "container" else {}
    )
    line = f"exec {shlex.quote(sys.executable)} -m pybroker {command.format(port=port, data=shlex.quote(str(data)))} {closed}"
    with subprocess.Popen(["sh", "-c", line], env={**os.environ, **variables}) as process:
        try:
            until(lambda: listens(port), "the broker listens")
            assert_serves(f"127.0.0.1:{port}")
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
