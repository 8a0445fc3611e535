"""Releases of kafka-python from 2019 to today, each configured for an old broker, so that it uses the versions of that broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from testing.clients.stock import CLIENTS, Confluent, create_topic, unique
from testing.places import CLIENT_PROGRAMS
from testing.process.venvs import old_python_client
from testing.samples import Received, Sample, assert_equal, varied, without_headers

TIMEOUT_S = 120
CODECS = ("none", "gzip", "snappy", "lz4")  # zstd is younger than these versions
SCRIPT = CLIENT_PROGRAMS / "old_client.py"
TODAY = "installed"
# (release, the broker's version that it is configured for)
PAIRS = [
    ("1.4.7", (0, 8, 2)),  # Produce v0, Fetch v0, ListOffsets v0
    ("1.4.7", (0, 9)),  # Produce v1, Fetch v1
    ("1.4.7", (0, 10)),  # Produce v2, Fetch v2, magic 1
    ("1.4.7", (0, 10, 1)),  # Fetch v3, ListOffsets v1
    ("1.4.7", (1, 0)),
    ("2.0.2", (0, 8, 2)),
    ("2.0.2", (0, 9)),
    ("2.0.2", (0, 10)),
    ("2.0.2", (0, 10, 1)),
    ("2.0.2", (0, 11)),  # magic 2
    ("2.0.2", (2, 5)),
    (TODAY, (0, 10, 1)),
    (TODAY, (0, 11)),
]
pairs = pytest.mark.parametrize(
    ("release", "api_version"), PAIRS, ids=lambda value: value if isinstance(value, str) else ".".join(map(str, value))
)


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> dict[str, tuple[str, list[Sample]]]:
    """Create topics, by codec, that a new client filled, in several batches, with headers."""
    filled = {}
    for codec in CODECS:
        topic, sent = unique(f"new-{codec}"), []
        create_topic(bootstrap, topic)
        for seed in range(4):
            sent += varied(75, seed=seed)
            Confluent().produce(bootstrap, topic, sent[-75:], codec=codec)
        filled[codec] = (topic, sent)
    return filled


def run(release: str, api_version: tuple[int, ...], bootstrap: str, steps: Sequence[dict[str, Any]]) -> list[Any]:
    python = sys.executable if release == TODAY else str(old_python_client(release))
    job = json.dumps({"bootstrap": bootstrap, "api_version": api_version, "steps": steps})
    done = subprocess.run([python, str(SCRIPT)], input=job, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return list(json.loads(done.stdout))


def reading(topic: str, count: int, offset: int = 0, *, from_beginning: bool = False) -> dict[str, Any]:
    return {"verb": "consume", "topic": topic, "count": count, "offset": offset, "from_beginning": from_beginning}


def received(result: Sequence[tuple[int, str | None, str | None, int | None]]) -> list[Received]:
    return [
        Received(offset, Sample(from_hex(key), from_hex(value), -1 if timestamp is None else timestamp))
        for offset, key, value, timestamp in result
    ]


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def as_read(samples: Sequence[Sample], api_version: tuple[int, ...]) -> list[Sample]:
    has_time = api_version >= (0, 10)
    return [s._replace(timestamp_ms=s.timestamp_ms if has_time else -1) for s in without_headers(samples)]


@pairs
def test_old_clients_read_what_new_ones_wrote(
    release: str, api_version: tuple[int, ...], bootstrap: str, topics: dict[str, tuple[str, list[Sample]]]
) -> None:
    steps = [reading(topic, 300, from_beginning=True) for topic, _ in topics.values()]
    steps += [reading(topic, 150, offset=150) for topic, _ in topics.values()]
    results = run(release, api_version, bootstrap, steps)
    for (_, sent), whole, half in zip(topics.values(), results[:4], results[4:], strict=True):
        assert_equal(received(whole), as_read(sent, api_version))
        assert_equal(received(half), as_read(sent[150:], api_version), first_offset=150)


@pairs
def test_every_client_reads_what_old_clients_wrote(release: str, api_version: tuple[int, ...], bootstrap: str) -> None:
    # this release's LZ4 needs a package that the tests do not install
    codecs = [c for c in CODECS if c != "lz4" or release != TODAY]
    samples = without_headers(varied(60, seed=len(api_version)))
    names: list[str] = []
    steps: list[dict[str, Any]] = []
    for codec in codecs:
        names.append(unique(f"old-{codec}"))
        create_topic(bootstrap, names[-1])
        records = [
            [None if s.key is None else s.key.hex(), None if s.value is None else s.value.hex(), s.timestamp_ms] for s in samples
        ]
        step: dict[str, Any] = {"verb": "produce", "topic": names[-1], "codec": codec, "records": records}
        steps += [{**step, "acks": 1}, {**step, "acks": "all"}, reading(names[-1], 120)]
    results = run(release, api_version, bootstrap, steps)
    written = as_read([*samples, *samples], api_version)
    for index, name in enumerate(names):
        assert results[index * 3] == list(range(60))
        assert results[index * 3 + 1] == list(range(60, 120))
        assert_equal(received(results[index * 3 + 2]), written)
        for reader in CLIENTS:
            assert_equal(reader.consume(bootstrap, name, 120), written)
