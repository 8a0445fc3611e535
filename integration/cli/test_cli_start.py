"""`pybroker start` as a process: ready line, exit codes, one-line errors, the metrics page."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testing.places import ROOT
from testing.waiting import WAIT_S, line_of

DOCUMENT = ROOT / "docs" / "metrics.md"
READY = re.compile(r"READY (?P<host>.*):(?P<port>[0-9]+)\n")


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a broker, and yield it with its port when it is ready; kill it at the end if it still runs."""
    command = [sys.executable, "-m", "pybroker", "start", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = line_of(process.stdout, "the broker's first line")
            ready = READY.fullmatch(line)
            assert ready is not None, (line, process.kill(), process.communicate(timeout=WAIT_S))
            yield process, int(ready["port"])
        finally:
            if process.poll() is None:
                process.kill()


def refusal(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pybroker", "start", "--log-level", "ERROR", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_the_broker_takes_a_free_port_and_stops_cleanly(tmp_path: Path, signal_number: signal.Signals) -> None:
    with started("--port", "0", "--data-dir", str(tmp_path / "new" / "data")) as (process, port):
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        process.send_signal(signal_number)
        rest, _ = process.communicate(timeout=10)
        assert (process.returncode, rest) == (0, ""), "stdout has only the ready line"
    assert (tmp_path / "new" / "data" / "meta.properties").exists()


def test_a_taken_port_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        listener = f"listeners=PLAINTEXT://127.0.0.1:{port}"
        code, error = refusal("--data-dir", str(tmp_path), "--override", listener)
    assert code == 1
    assert error.startswith("Error: ")
    assert str(port) in error
    assert error.count("\n") == 1


def test_a_directory_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with started("--port", "0", "--data-dir", str(tmp_path)):
        code, error = refusal("--port", "0", "--data-dir", str(tmp_path))
    assert code == 1
    assert error.startswith("Error: ")
    assert str(tmp_path) in error
    assert error.count("\n") == 1


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, error = refusal("--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert code == 1
    assert error.startswith("Error: ")
    assert "Traceback" not in error


def test_the_metrics_page_has_what_the_document_lists(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics_port = free.getsockname()[1]
    listener = f"metrics.listener=127.0.0.1:{metrics_port}"
    with started("--port", "0", "--data-dir", str(tmp_path), "--override", listener) as (process, _):
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as response:
            page = response.read().decode()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 0
    exported = set(re.findall(r"^# HELP (\S+)", page, re.MULTILINE))
    listed = set(re.findall(r"^\| `([A-Za-z_]+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert exported == listed
