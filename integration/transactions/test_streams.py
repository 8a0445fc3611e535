"""A short run of Kafka Streams with kills. Longer ones: `python -m integration.transactions.streams_counts --minutes 10`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.transactions.streams_counts import SETTINGS, Size, run
from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


def test_kafka_streams_counts_exactly_although_it_and_the_broker_are_killed(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    result = run(start_broker(SETTINGS), tmp_path, 1, Size(records=500, kills=1), release="4.3.1", store="memory")
    assert result.problems == []
    assert result.committed == 500
    assert result.aborted > 0
