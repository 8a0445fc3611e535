"""SIGTERM ends a command as Ctrl-C does: what was printed is committed, and the group is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker.testing import Broker, ThreadBroker
from testing.waiting import WAIT_S, until
from tests.cli.cluster import lines, objects


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread() as broker:
        broker.create_topic("orders")
        broker.produce("orders", "1", "2", "3")
        yield broker


@contextmanager
def running(broker: ThreadBroker, *words: str, ignores_sigint: bool = False) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # a round is printed at once
    environment |= {"PYBROKER_BOOTSTRAP": broker.bootstrap, "PYBROKER_PROFILES": "/nonexistent"}
    script = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from pybroker.cli.main import main; main()"
    start = ["-c", script] if ignores_sigint else ["-m", "pybroker"]
    process = subprocess.Popen(
        [sys.executable, *start, *words],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Send the signal, and return the exit code and what stands on standard error."""
    process.send_signal(signal.SIGTERM)
    _, printed = process.communicate(timeout=WAIT_S)
    return process.returncode, printed


@pytest.mark.parametrize("ignores_sigint", [False, True])
def test_a_member_commits_what_it_has_printed_and_leaves_the_group(broker: ThreadBroker, *, ignores_sigint: bool) -> None:
    group = f"kitchen-{ignores_sigint}"
    with running(broker, "consume", "orders", "--group", group, "--follow", ignores_sigint=ignores_sigint) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["1\n", "2\n", "3\n"]
        process.send_signal(signal.SIGTERM)
        code, printed = ended(process)  # two signals, as `timeout` sends them; the second may meet the end of the interpreter
    assert (code in (130, -signal.SIGTERM), printed) == (True, "")
    (row,) = objects(broker.bootstrap, "groups", "describe", group)
    assert (row["offset"], row["lag"], row["state"], row["member"]) == (3, 0, "Empty", None)


def test_what_a_producer_was_given_is_written(broker: ThreadBroker) -> None:
    with running(broker, "produce", "drinks") as process:
        assert process.stdin is not None
        process.stdin.write("tea\n")
        process.stdin.flush()
        until(lambda: "drinks" in broker.topics() and broker.consume("drinks"), "the record is there")
        assert ended(process) == (130, "")
    assert lines(broker.bootstrap, "consume", "drinks") == ["tea"]


def test_a_copy_that_is_ended_continues(broker: ThreadBroker, tmp_path: Path) -> None:
    words = ("copy", "orders", "--prefix", "copy.", "--state", str(tmp_path / "state"), "--timeout", "20")
    with running(broker, *words, "--follow") as process:
        until(lambda: "copy.orders" in broker.topics() and len(broker.consume("copy.orders")) == 3, "the copy is there")
        assert ended(process) == (130, "copy: stopped; run the same command again to continue\n")
    assert lines(broker.bootstrap, *words)[0].startswith("Copied 0 records in ")
