"""Transactions of franz-go: plain ones, and a loop that continues, or is started again, when the broker is killed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration.transactions.transaction_histories import read_all
from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess
from testing.process.go import built
from testing.waiting import LONG_WAIT_S, line_of

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")

RECORDS = 60
KILLS = 2
REFUSED = "unable to dial"
"""With this, franz-go gives up a transaction whose end meets a broker that is away for more than some hundred milliseconds."""


def values(bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[str]:
    return [value.decode() for _, value in read_all(bootstrap, partition, isolation, topic)]


def test_a_client_commits_and_aborts(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    command = [str(built("transactions")), "commit", bootstrap, topic, f"tid-{topic}", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    for partition in (0, 1):
        assert values(bootstrap, topic, "read_uncommitted", partition) == lines
        assert values(bootstrap, topic, partition=partition) == [line for line in lines if line.startswith("committed")]


def test_a_loop_is_exact_although_the_broker_is_killed(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = start_broker()
    for topic in ("input", "output"):
        create_topic(broker.bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    written = [str(number) for number in range(RECORDS)]
    for value in written:
        producer.produce("input", value, partition=0)
    assert producer.flush(LONG_WAIT_S) == 0
    command = [str(built("transactions")), "loop", broker.bootstrap, "input", "output", "loop", "group", str(RECORDS)]
    kills, errors = KILLS, tmp_path / "errors"
    for _ in range(1 + KILLS):
        with errors.open("wb") as file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file) as process:
            assert process.stdout is not None
            try:
                while kills and line_of(process.stdout, "a transaction", LONG_WAIT_S):
                    kills -= 1
                    broker.kill()
                    broker.start()
                process.communicate(timeout=LONG_WAIT_S)
            finally:
                process.kill()
        if process.returncode == 0 or values(broker.bootstrap, "output") == written:
            break
        assert REFUSED in errors.read_text()
    else:
        raise AssertionError(errors.read_text()[-3000:])
    assert kills == 0
    assert values(broker.bootstrap, "output") == written
    assert len(values(broker.bootstrap, "output", "read_uncommitted")) > RECORDS
