"""The librdkafka of today and that of kcat, configured for a broker of 2015 or 2016 that cannot be asked for its versions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest

from testing.clients.stock import CLIENTS, Confluent, confluent_consume, confluent_produce
from testing.samples import Sample, assert_equal, varied, without_headers

CODECS = ("none", "gzip", "snappy", "lz4")
TIMEOUT_S = 60
needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
old_broker = pytest.mark.parametrize("fallback", ["0.8.2.2", "0.9.0.1"])
every_codec = pytest.mark.parametrize("codec", CODECS)


def timeless(samples: list[Sample], timestamp_ms: int) -> list[Sample]:
    return [s._replace(timestamp_ms=timestamp_ms) for s in without_headers(samples)]


@old_broker
@every_codec
def test_old_and_new_clients_read_what_the_other_wrote(
    fallback: str, codec: str, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    old = {
        "bootstrap.servers": bootstrap,
        "api.version.request": False,
        "broker.version.fallback": fallback,
        "log_level": 2,  # it warns that these settings are old
    }
    topic, samples = new_topic(), varied(100)
    Confluent().produce(bootstrap, topic, samples[:40], codec=codec)
    assert confluent_produce({**old, "compression.type": codec}, topic, without_headers(samples[40:])) == list(range(40, 100))
    assert_equal(confluent_consume(old, topic, 100), timeless(samples, 0))  # librdkafka reports 0 for "no timestamp"
    for reader in CLIENTS:
        assert_equal(reader.consume(bootstrap, topic, 100), samples[:40] + timeless(samples[40:], -1))


def kcat(bootstrap: str, *arguments: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(["kcat", "-b", bootstrap, *arguments], input=given, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:].decode(errors="replace")
    return done.stdout


@needs_kcat
@every_codec
@pytest.mark.parametrize("fallback", ["0.8.2.2", "0.9.0.1", None])
def test_kcat_writes_and_reads(fallback: str | None, codec: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    options = ["-X", "api.version.request=false", "-X", f"broker.version.fallback={fallback}"] if fallback else []
    lines = [b"k%d:v%d" % (n, n) + b"x" * n for n in range(200)]
    kcat(bootstrap, "-P", "-t", topic, "-p", "1", "-K:", "-z", codec, *options, given=b"\n".join(lines) + b"\n")
    text = kcat(bootstrap, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-K:", *options)
    assert text.splitlines() == lines
    half = kcat(bootstrap, "-C", "-t", topic, "-p", "1", "-o", "150", "-c", "50", "-q", "-f", "%o %k:%s\n", *options)
    assert half.splitlines() == [b"%d %s" % (n, line) for n, line in enumerate(lines)][150:]
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", *options) == b""


@needs_kcat
def test_kcat_lists_and_queries(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    kcat(bootstrap, "-P", "-t", topic, "-p", "2", given=b"a\nb\nc\n")
    listing = kcat(bootstrap, "-L", "-t", topic).decode()
    assert f'topic "{topic}" with 3 partitions' in listing
    assert "partition 2, leader" in listing
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:2:-1").split() == [topic.encode(), b"[2]", b"offset", b"3"]
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:2:-2").split() == [topic.encode(), b"[2]", b"offset", b"0"]
