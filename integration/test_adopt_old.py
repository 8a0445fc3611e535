"""`pybroker adopt` on directories that Kafka 2.0, 2.8 and 3.3 have filled: clients see what they saw from Kafka.

`old_directories` describes the directories, and makes them again.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.old_directories import NAMES, served, unpack
from testing.process.broker import BrokerProcess, is_kafka

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
    after = served(ours.bootstrap, list(before["groups"]))
    assert after["groups"] == before["groups"]
    assert after["partitions"].keys() == before["partitions"].keys()
    for partition, said in before["partitions"].items():
        assert after["partitions"][partition] == said, partition
    ours.stop()
    again = pybroker("log", "verify", *directories)
    assert again.returncode == 0, again.stdout
