"""How the broker starts and stops: READY, SIGTERM, the clean-shutdown marker, and errors that are sentences, not tracebacks."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, command, is_kafka
from testing.samples import varied
from testing.wire.batches import write_batches
from testing.wire.raw import API_VERSIONS, FETCH, Ask, Connection, fetch_body, fetch_one

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60
CLEAN_MARKER = ".kafka_cleanshutdown"
ours_only = pytest.mark.skipif(is_kafka(), reason="about our own command line and log")


def clean_markers(broker: BrokerProcess) -> list[Path]:
    return list(broker.data_dir.rglob(CLEAN_MARKER))


def test_a_broker_serves_clients_once_it_prints_ready(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    assert re.fullmatch(r"READY 127\.0\.0\.1:\d+", broker.ready_line)
    with Connection(broker.bootstrap) as connection:
        assert connection.call(API_VERSIONS, 0, b"")[:2] == b"\0\0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_cleanly_and_soon(number: signal.Signals, start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "some", 3)
    with Connection(broker.bootstrap) as idle, Connection(broker.bootstrap) as waiting, Connection(broker.bootstrap) as halfway:
        write_batches(idle, "some", [varied(10)])
        waiting.send(FETCH, 4, fetch_body(4, [Ask(topic="some", offset=10)], wait_ms=60_000))
        halfway.socket.sendall(b"\0\1\0\0half a request")
        assert not clean_markers(broker), "there is no marker while the broker runs"
        if number == signal.SIGINT:
            os.kill(broker.pid, number)
        broker.stop()
    assert len(clean_markers(broker)) == 1
    broker.start()
    assert not clean_markers(broker)
    with Connection(broker.bootstrap) as connection:
        assert fetch_one(connection, 4, Ask(topic="some")).high_watermark == 10


@ours_only
def test_the_log_reports_whether_it_had_to_recover(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "some")
    with Connection(broker.bootstrap) as connection:
        write_batches(connection, "some", [varied(10)])
    broker.stop()
    before = len(broker.log_text)
    broker.start()
    assert re.search(r"1 logs? after a clean stop", broker.log_text[before:])
    broker.kill()
    before = len(broker.log_text)
    broker.start()
    assert re.search(r"1 logs? after an unclean stop", broker.log_text[before:])
    with Connection(broker.bootstrap) as connection:
        assert fetch_one(connection, 4, Ask(topic="some")).high_watermark == 10


@ours_only
def test_an_idle_broker_logs_no_warning(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    broker.stop()
    assert not re.search(r"WARN|ERROR|Traceback", broker.log_text), broker.log_text


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@ours_only
def test_help_names_the_options() -> None:
    helped = run("--help")
    assert helped.returncode == 0
    for option in ("--port", "--data-dir", "--override"):
        assert option in helped.stdout


@ours_only
@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("num.partitions=many", ["num.partitions", "many"]),
        ("log.segment.bytes=-5", ["log.segment.bytes", "-5"]),
        ("log.cleanup.policy=burn", ["log.cleanup.policy", "burn"]),
        ("queued.max.request.bytes=1000", ["queued.max.request.bytes", "1000"]),
        ("no-equals-sign", ["no-equals-sign"]),
    ],
)
def test_a_bad_setting_refuses_to_start_and_is_named(override: str, named: list[str], tmp_path: Path) -> None:
    refused = run("--port", "0", "--data-dir", str(tmp_path / "data"), "--override", override)
    assert refused.returncode not in (0, -signal.SIGKILL)
    for text in named:
        assert text in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "READY" not in refused.stdout


@ours_only
def test_the_error_of_a_taken_port_names_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run("--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert refused.returncode != 0
    assert str(port) in refused.stderr
    assert "Traceback" not in refused.stderr


@ours_only
def test_the_error_of_an_impossible_data_directory_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = run("--port", "0", "--data-dir", str(tmp_path / "file"))
    assert refused.returncode != 0
    assert str(tmp_path / "file") in refused.stderr
    assert "Traceback" not in refused.stderr


@ours_only
def test_a_data_directory_serves_one_broker_at_a_time(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    refused = run("--port", "0", "--data-dir", str(broker.data_dir))
    assert refused.returncode != 0
    assert str(broker.data_dir) in refused.stderr
    assert "Traceback" not in refused.stderr
    with Connection(broker.bootstrap) as connection:
        assert connection.call(API_VERSIONS, 0, b"")[:2] == b"\0\0", "the first broker runs undisturbed"


@ours_only
def test_an_unknown_setting_warns_and_starts(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"no.such.setting": "1"})
    assert re.search(r"(?i)warn.*no\.such\.setting", broker.log_text)
