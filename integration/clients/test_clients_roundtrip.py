"""Every stock client writes, and every stock client reads the same: keys, values, headers, timestamps, codecs, sizes, acks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testing.clients.stock import CLIENTS, Client
from testing.samples import CODECS, assert_equal, sized, varied

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@every_client
@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_one_client_wrote(
    client: Client, codec: str, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic, samples = new_topic(), varied(200, seed=CODECS.index(codec))
    assert client.produce(bootstrap, topic, samples, codec=codec) == list(range(200))
    for reader in CLIENTS:
        assert_equal(reader.consume(bootstrap, topic, 200), samples)


@every_client
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_have_any_size_up_to_a_megabyte(
    client: Client, codec: str, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic, samples = new_topic(), sized([0, 1, 1_000, 16_384, 100_000, 500_000, 1_000_000, 0, 1])
    client.produce(bootstrap, topic, samples, codec=codec)
    for reader in CLIENTS:
        assert_equal(reader.consume(bootstrap, topic, len(samples)), samples)


@every_client
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_client_produces_with_every_acks(client: Client, acks: int, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(), varied(100, seed=acks)
    offsets = client.produce(bootstrap, topic, samples, acks=acks)
    if acks != 0:
        assert offsets == list(range(100))
    assert_equal(client.consume(bootstrap, topic, 100), samples)


@every_client
def test_two_idempotent_producers_share_a_partition(client: Client, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(), varied(300, seed=7)
    assert client.produce(bootstrap, topic, samples, idempotent=True) == list(range(300))
    # a second producer, with another producer id, on the same partition
    assert client.produce(bootstrap, topic, samples, idempotent=True, codec="gzip") == list(range(300, 600))
    assert_equal(client.consume(bootstrap, topic, 600), samples + samples)


@every_client
def test_a_consumer_starts_at_any_offset(client: Client, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(), varied(120, seed=9)
    for codec, part in (("none", samples[:50]), ("zstd", samples[50:])):
        client.produce(bootstrap, topic, part, codec=codec)
    for first in (0, 1, 49, 50, 51, 119):  # also in the middle of a batch: the client skips the records before its offset
        assert_equal(client.consume(bootstrap, topic, 120 - first, first_offset=first), samples[first:], first_offset=first)


@every_client
def test_records_get_the_brokers_time_when_the_topic_wants_it(
    client: Client, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic, samples = new_topic(message_timestamp_type="LogAppendTime"), varied(10)
    client.produce(bootstrap, topic, samples, codec="snappy")
    received = client.consume(bootstrap, topic, 10)
    assert [r.sample._replace(timestamp_ms=0) for r in received] == [s._replace(timestamp_ms=0) for s in samples]
    assert all(r.sample.timestamp_ms > samples[-1].timestamp_ms for r in received)


@pytest.mark.parametrize("compression", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topic_decides_about_compression(compression: str, bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(compression_type=compression), varied(100)
    writer, *readers = CLIENTS
    writer.produce(bootstrap, topic, samples, codec="lz4" if compression != "lz4" else "gzip")
    for reader in readers:
        assert_equal(reader.consume(bootstrap, topic, 100), samples)
