"""Where `pybroker start` listens, what it reads, and what ends it: other programs on the machine, signals, and its parent."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.process.broker import is_kafka
from testing.waiting import line_of
from testing.wire.raw import API_VERSIONS, Connection

pytestmark = pytest.mark.skipif(is_kafka(), reason="about our own command line")
START = [sys.executable, "-m", "pybroker", "start"]
CLEAN_MARKER = ".kafka_cleanshutdown"
TIMEOUT_S = 60


@contextmanager
def process_of(*command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=env, cwd=cwd
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> tuple[str, int]:
    """Return the host and port of the ready line."""
    assert process.stdout is not None
    line = line_of(process.stdout, "the ready line")
    found = re.fullmatch(r"READY (.*):([0-9]+)\n", line)
    assert found is not None, (line, process.kill(), process.communicate(timeout=TIMEOUT_S))
    return found[1].strip("[]"), int(found[2])


def listening(port: int) -> set[str]:
    """Return the local addresses, as the system writes them, of all sockets that listen at the port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, _, state = (line.split()[at] for at in (1, 2, 3))
            if state == "0A" and int(address.rpartition(":")[2], 16) == port:
                found.add(address.rpartition(":")[0])
    return found


LOOPBACK, ALL_IPV4, ALL_IPV6 = "0100007F", "0" * 8, "0" * 32


@pytest.mark.parametrize(
    ("options", "host", "address"),
    [
        ((), "127.0.0.1", LOOPBACK),
        (("--host", "0.0.0.0"), "127.0.0.1", ALL_IPV4),
        (("--host", "localhost"), "127.0.0.1", LOOPBACK),
        (("--override", "listeners=PLAINTEXT://:0"), "127.0.0.1", ALL_IPV6),
    ],
)
def test_the_ready_line_names_an_address_at_which_the_broker_listens(
    tmp_path: Path, options: tuple[str, ...], host: str, address: str
) -> None:
    with process_of(*START, "--port", "0", "--data-dir", str(tmp_path), *options) as process:
        named, port = ready(process)
        assert named == host
        assert listening(port) == {address}
        with Connection(f"{named}:{port}") as connection:
            assert connection.call(API_VERSIONS, 0, b"")[:2] == b"\0\0"


def test_a_broker_whose_port_is_taken_touches_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with process_of(*START, "--port", str(port), "--data-dir", str(tmp_path / "data")) as process:
            output, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output) == (1, "")
    line = errors.splitlines()[-1]
    assert line.startswith(
        f"Error: listeners=PLAINTEXT://127.0.0.1:{port}: cannot listen there: Address already in use: another program"
    )
    assert "pybroker doctor" in line
    assert "registered" not in errors
    assert not (tmp_path / "data").exists()


def test_variables_of_the_shell_are_read_only_with_an_option(tmp_path: Path) -> None:
    environment = {**os.environ, "KAFKA_LOG_DIRS": str(tmp_path / "of-the-shell")}
    with process_of(*START, "--port", "0", env=environment, cwd=tmp_path) as process:
        ready(process)
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (tmp_path / "pybroker-data").exists()
    assert not (tmp_path / "of-the-shell").exists()
    assert "The environment has KAFKA_LOG_DIRS, which only --env reads as properties" in errors
    with process_of(*START, "--port", "0", "--env", env=environment, cwd=tmp_path) as process:
        ready(process)
    assert (tmp_path / "of-the-shell").exists()


def test_a_hangup_stops_the_broker_cleanly(tmp_path: Path) -> None:
    with process_of(*START, "--port", "0", "--data-dir", str(tmp_path)) as process:
        ready(process)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert (tmp_path / CLEAN_MARKER).exists()


def test_a_hangup_that_is_ignored_stops_nothing(tmp_path: Path) -> None:
    with process_of("nohup", *START, "--port", "0", "--data-dir", str(tmp_path)) as process:
        host, port = ready(process)
        process.send_signal(signal.SIGHUP)
        with Connection(f"{host}:{port}") as connection:
            assert connection.call(API_VERSIONS, 0, b"")[:2] == b"\0\0"
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert errors.count("msg=Stopping") == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_broker_stops_cleanly_when_its_parent_has_ended(tmp_path: Path, number: signal.Signals) -> None:
    command = shlex.join([*START, "--port", "0", "--data-dir", str(tmp_path), "--exit-with-parent"])
    with process_of("sh", "-c", f"{command} & wait") as parent:
        ready(parent)
        parent.send_signal(number)
        _, errors = parent.communicate(timeout=TIMEOUT_S)  # until the broker, too, has closed the pipes
    assert re.search(r"The process \d+, which started the broker, has ended", errors)
    assert "Stopped after" in errors
    assert (tmp_path / CLEAN_MARKER).exists()
