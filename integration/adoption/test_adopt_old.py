"""`pybroker adopt` on directories that Kafka 2.0, 2.8 and 3.3 have filled: clients see what they saw from Kafka.

`old_directories` describes the directories, and makes them again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.adoption.old_directories import NAMES, served, unpack
from testing.process.broker import BrokerProcess, is_kafka
from testing.waiting import until

pytestmark = pytest.mark.skipif(is_kafka(), reason="is about the files of our broker")

TIMEOUT_S = 60
OVERRIDES = {"log.cleaner.enable": "false", "offsets.retention.minutes": "1000000000"}


def pybroker(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "ours", OVERRIDES)
    yield broker
    broker.close()


def with_its_end(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a partition is once an open transaction has the marker of its abort: that takes one offset."""
    is_open = found["stable"] < found["high"]
    return found | {"high": found["high"] + 1, "stable": found["high"] + 1} if is_open else found


def stable_offsets(bootstrap: str, before: dict[str, Any]) -> dict[str, int]:
    return {name: found["stable"] for name, found in served(bootstrap, list(before["groups"]))["partitions"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_of_an_older_kafka_is_served_as_it_was(tmp_path: Path, ours: BrokerProcess, name: str) -> None:
    before = unpack(name, tmp_path)
    directories, configs = [tmp_path / "logs", tmp_path / "more"], tmp_path / "configs.txt"
    sound = pybroker("log", "verify", *directories)
    assert sound.returncode == 0, sound.stdout
    options: list[str | Path] = ["--configs", configs] if configs.exists() else []
    adopted = pybroker("adopt", *directories, *options)
    assert adopted.returncode == 0, adopted.stderr
    ours.data_dir = Path(",".join(map(str, directories)))
    ours.start()
    ended = {name: with_its_end(found) for name, found in before["partitions"].items()}
    stable = {name: found["stable"] for name, found in ended.items()}
    until(lambda: stable_offsets(ours.bootstrap, before) == stable, "the coordinator has aborted what was open too long")
    after = served(ours.bootstrap, list(before["groups"]))
    assert after["groups"] == before["groups"]
    assert after["partitions"].keys() == before["partitions"].keys()
    for partition, found in ended.items():
        assert after["partitions"][partition] == found, partition
    ours.stop()
    again = pybroker("log", "verify", *directories)
    assert again.returncode == 0, again.stdout
