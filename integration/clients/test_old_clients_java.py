"""Java's own consumers from before magic 2 and the padding of a converted response; no other client reads padding as they do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from testing.clients.stock import Confluent, create_topic
from testing.places import JAVA_SOURCES
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.maven import old_client_jars
from testing.samples import varied

TIMEOUT_S = 120
RECORDS = 300
PROGRAM = JAVA_SOURCES / "OldConsumer.java"

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler")


def consume(version: str, bootstrap: str, topic: str) -> subprocess.CompletedProcess[str]:
    classes = ":".join(map(str, old_client_jars(version)))
    command = [*quick_java(classes, PROGRAM), PROGRAM.stem, bootstrap, topic, str(RECORDS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def filled(broker: BrokerProcess, codec: str) -> tuple[str, list[str]]:
    """Create a topic of several batches, each of which grows when it is converted, so that there is padding."""
    topic = f"old-{codec}"
    samples = [sample._replace(value=b"value %d" % n, headers=()) for n, sample in enumerate(varied(RECORDS))]
    create_topic(broker.bootstrap, topic, 1, {})
    for start in range(0, RECORDS, 50):
        Confluent().produce(broker.bootstrap, topic, samples[start : start + 50], codec=codec)
    return topic, [f"{n} {sample.timestamp_ms} value {n}" for n, sample in enumerate(samples)]


@pytest.mark.parametrize("version", ["0.10.1.1", "0.10.2.2"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_java_reads_fitted_padding(version: str, codec: str, start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"pybroker.down.conversion.padding": "fitted"})
    topic, expected = filled(broker, codec)
    done = consume(version, broker.bootstrap, topic)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected


def test_java_does_not_read_padding_of_integer_max_value(start_broker: Callable[..., BrokerProcess]) -> None:
    """Show why the setting exists. If this test ever fails, the documents that describe the padding must change."""
    broker = start_broker()
    topic, _ = filled(broker, "none")
    done = consume("0.10.2.2", broker.bootstrap, topic)
    assert done.returncode != 0
    assert "IllegalArgumentException" in done.stderr
