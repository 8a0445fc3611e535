"""The oldest versions on the wire: Produce v0-2, Fetch v0-3, ListOffsets v0, with data of every magic and codec.

The records on disk are always magic 2, so every Fetch here is converted while it is sent. Its record set has exactly the size
max(size before, size of the first converted batch), and ends in bytes that a client ignores: none, less than a message header, or
a message that claims to be longer than the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from testing.clients.stock import CLIENTS, create_topic, unique
from testing.process.broker import is_kafka
from testing.samples import T0_MS, Received, Sample, assert_equal, varied, without_headers
from testing.wire.batches import sample_batch, write_batches
from testing.wire.legacy import CODEC_IDS, SET_HEADER, message_set, parse
from testing.wire.raw import (
    FETCH,
    PRODUCE,
    Ask,
    Connection,
    fetch,
    fetch_body,
    fetch_one,
    list_offsets_v0,
    parse_fetch,
    produce,
    produce_body,
)

INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, OFFSET_OUT_OF_RANGE = 87, 76, 2, 3, 1
PADDING_SIZE = 0x7FFFFFFF
OLD_CODECS = tuple(CODEC_IDS)
BATCH_SIZES = (50, 1, 30, 200, 2)

old_fetch = pytest.mark.parametrize("version", [0, 1, 2, 3])


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap) as opened:
        yield opened


def magic_of(fetch_version: int) -> int:
    return 0 if fetch_version < 2 else 1


def as_read(samples: list[Sample], magic: int) -> list[Sample]:
    """Return the records with only those fields that an old format keeps."""
    return [s._replace(timestamp_ms=s.timestamp_ms if magic else -1, headers=()) for s in samples]


def assert_ignorable(rest: bytes) -> None:
    """Assert that a client takes `rest` for a partial message."""
    if len(rest) >= SET_HEADER.size:
        _, size = SET_HEADER.unpack_from(rest)
        if is_kafka():  # Kafka's padding, unlike its own design, claims no more than it must; or the broker cuts a real message
            assert size > len(rest) - SET_HEADER.size
        else:
            assert size == PADDING_SIZE


def fetch_all(connection: Connection, version: int, topic: str, count: int, bytes_max: int = 1 << 20) -> list[Received]:
    """Read as a consumer does, skipping the records before its offset, until `count` records are there."""
    received: list[Received] = []
    while len(received) < count:
        offset = received[-1].offset + 1 if received else 0
        parsed = parse(fetch_one(connection, version, Ask(topic=topic, offset=offset, bytes_max=bytes_max)).records)
        assert_ignorable(parsed.rest)
        fresh = [r for r in parsed.records if r.offset >= offset]
        assert fresh, f"no progress at offset {offset}"
        received += fresh
    return received


# --- Fetch of new batches -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=OLD_CODECS)
def written(request: pytest.FixtureRequest, bootstrap: str) -> tuple[str, str, list[list[Sample]]]:
    """Return (topic, codec, batches) of a partition of magic-2 batches with headers."""
    topic = unique(f"batches-{request.param}")
    create_topic(bootstrap, topic)
    batches = [varied(max(2, size), seed=size)[:size] for size in BATCH_SIZES]
    with Connection(bootstrap) as opened:
        write_batches(opened, topic, batches, request.param)
    return topic, request.param, batches


@old_fetch
def test_new_batches_reach_old_consumers(
    version: int, written: tuple[str, str, list[list[Sample]]], connection: Connection
) -> None:
    topic, codec, batches = written
    samples = as_read([s for b in batches for s in b], magic_of(version))
    assert_equal(fetch_all(connection, version, topic, len(samples)), samples)
    parsed = parse(fetch_one(connection, version, Ask(topic=topic)).records)
    assert parsed.magics == {magic_of(version)}
    assert codec in parsed.codecs
    assert parsed.codecs <= {codec, "none"}, "compressed as before, except for what the producer left uncompressed"
    assert not parsed.log_append_time


@old_fetch
def test_the_record_set_has_exactly_the_size_it_must(
    version: int, written: tuple[str, str, list[list[Sample]]], connection: Connection
) -> None:
    topic, _, batches = written
    first_offset = 0
    for samples in batches:  # a fetch that begins with each of the batches
        ask = Ask(topic=topic, offset=first_offset)
        size_before = len(fetch_one(connection, 4, ask).records)
        one = fetch_one(connection, version, ask)
        parsed = parse(one.records)
        first_batch = [r for r in parsed.records if r.offset < first_offset + len(samples)]
        assert len(first_batch) == len(samples), "the first batch is whole whatever its size"
        if len(one.records) != size_before:
            assert len(one.records) > size_before
            assert len(parsed.records) == len(samples), "where the first batch grew, the record set is that batch alone"
            assert not parsed.rest
        assert_ignorable(parsed.rest)
        first_offset += len(samples)


@pytest.mark.parametrize("version", [0, 2])
def test_all_whole_batches_that_fit_are_sent(version: int, connection: Connection, new_topic: Callable[..., str]) -> None:
    """Assert that uncompressed small records grow, so the last batches of a response no longer fit."""
    topic, magic = new_topic(), magic_of(version)
    batches = [[Sample(b"k", b"%02d" % n * (1 + b), T0_MS) for n in range(10)] for b in range(20)]
    samples = as_read(write_batches(connection, topic, batches), magic)
    size = len(fetch_one(connection, 4, Ask(topic=topic)).records)
    fetched = fetch_one(connection, version, Ask(topic=topic))
    assert len(fetched.records) == size
    parsed = parse(fetched.records)
    assert_ignorable(parsed.rest)
    whole_batches = max(n for n in range(21) if len(message_set(samples[: n * 10], magic)) <= size)
    assert 0 < whole_batches < 20, "the test is about a response that is cut"
    assert whole_batches * 10 <= len(parsed.records) < (whole_batches + 1) * 10
    assert_equal(parsed.records, samples[: len(parsed.records)])


# A magic-2 batch has 61 bytes and 7 for each record here, a message of magic 0 has 26 bytes and one of magic 1 has 34.
@pytest.mark.parametrize(
    ("version", "count", "left"),
    [(0, 1, 42), (0, 2, 23), (0, 3, 4), (1, 3, 4), (2, 1, 34), (2, 2, 7), (3, 2, 7), (0, 4, 0), (3, 3, 0)],
)
def test_the_end_of_the_record_set_is_padding_or_a_partial_header(
    version: int, count: int, left: int, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    samples = write_batches(connection, topic, [[Sample(b"k", b"v", T0_MS)] * count])
    size_before = len(fetch_one(connection, 4, Ask(topic=topic)).records)
    fetched = fetch_one(connection, version, Ask(topic=topic))
    parsed = parse(fetched.records)
    assert_equal(parsed.records, as_read(samples, magic_of(version)))
    assert len(parsed.rest) == left
    assert_ignorable(parsed.rest)
    if left:
        assert len(fetched.records) == size_before


@old_fetch
def test_a_fetch_may_begin_in_the_middle_of_a_batch(
    version: int, written: tuple[str, str, list[list[Sample]]], connection: Connection
) -> None:
    topic, _, batches = written
    samples = as_read([s for b in batches for s in b], magic_of(version))
    for offset in (1, 25, 49, 50, 51, 80, 200, 282):
        records = parse(fetch_one(connection, version, Ask(topic=topic, offset=offset)).records).records
        assert records[0].offset <= offset, "a compressed batch may begin before the offset, and the client skips"
        wanted = [r for r in records if r.offset >= offset]
        assert wanted
        assert_equal(wanted, samples[offset : offset + len(wanted)], first_offset=offset)


@old_fetch
def test_a_response_has_many_partitions(version: int, bootstrap: str, connection: Connection) -> None:
    """Check that each partition has its own size, and the response the size that it announces.

    Otherwise the response would not parse.
    """
    topics = [unique("many") for _ in range(12)]
    sent: dict[str, list[Sample]] = {}
    for n, topic in enumerate(topics):
        create_topic(bootstrap, topic)
        sizes = [] if n % 4 == 3 else [1 + n, 20, 3]
        codec = OLD_CODECS[n % 4]
        sent[topic] = write_batches(connection, topic, [varied(20, seed=n)[:size] for size in sizes], codec)
    response = fetch(connection, version, [Ask(topic=topic) for topic in topics])
    assert [f.topic for f in response.partitions] == topics
    for fetched in response.partitions:
        assert (fetched.error, fetched.high_watermark) == (0, len(sent[fetched.topic]))
        parsed = parse(fetched.records)
        assert_ignorable(parsed.rest)
        assert_equal(parsed.records, as_read(sent[fetched.topic][: len(parsed.records)], magic_of(version)))
        assert bool(parsed.records) == bool(sent[fetched.topic])


@old_fetch
def test_pipelined_fetches_get_their_responses_in_order(
    version: int, written: tuple[str, str, list[list[Sample]]], connection: Connection
) -> None:
    topic, _, _ = written
    expected = [fetch_one(connection, version, Ask(topic=topic, offset=offset)).records for offset in range(20)]
    ids = [connection.send(FETCH, version, fetch_body(version, [Ask(topic=topic, offset=offset)])) for offset in range(20)]
    responses = [parse_fetch(version, connection.receive(correlation_id)) for correlation_id in ids]
    assert [response.partitions[0].records for response in responses] == expected


@old_fetch
def test_the_brokers_time_is_marked(version: int, connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    response = produce(connection, 3, topic, sample_batch(varied(5), "gzip"))
    parsed = parse(fetch_one(connection, version, Ask(topic=topic)).records)
    assert parsed.log_append_time is (version >= 2)
    assert {r.sample.timestamp_ms for r in parsed.records} == {response.log_append_time if version >= 2 else -1}


@old_fetch
def test_zstd_cannot_be_converted(version: int, connection: Connection, new_topic: Callable[..., str]) -> None:
    topic, other = new_topic(), new_topic()
    write_batches(connection, topic, [varied(20)], "zstd")
    sent = write_batches(connection, other, [varied(20)])
    bad, good = fetch(connection, version, [Ask(topic=topic), Ask(topic=other)]).partitions
    assert (bad.error, bad.records) == (UNSUPPORTED_COMPRESSION_TYPE, b"")
    assert is_kafka() or not bad.is_null, "librdkafka cannot read a response without a record set, and asks again and again"
    assert_equal(parse(good.records).records, as_read(sent, magic_of(version)))


@old_fetch
def test_zstd_behind_other_batches_is_refused_when_its_turn_comes(
    version: int, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    sent = write_batches(connection, topic, [varied(20), varied(30)], "gzip")
    write_batches(connection, topic, [varied(20)], "zstd")
    assert_equal(fetch_all(connection, version, topic, 50), as_read(sent, magic_of(version)))
    (bad,) = fetch(connection, version, [Ask(topic=topic, offset=50)]).partitions
    assert (bad.error, bad.records) == (UNSUPPORTED_COMPRESSION_TYPE, b"")


@old_fetch
def test_errors_belong_to_single_partitions(version: int, connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    sent = write_batches(connection, topic, [varied(3)])
    asks = [
        Ask(topic=topic, partition=7),
        Ask(topic="no-such-topic-at-all"),
    ]
    response = fetch(connection, version, [Ask(topic=topic), *asks])
    assert [f.error for f in response.partitions] == [0, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_OR_PARTITION]
    assert_equal(parse(response.partitions[0].records).records, as_read(sent, magic_of(version)))
    (beyond,) = fetch(connection, version, [Ask(topic=topic, offset=4)]).partitions
    assert beyond.error == OFFSET_OUT_OF_RANGE
    (at_end,) = fetch(connection, version, [Ask(topic=topic, offset=3)]).partitions
    assert (at_end.error, at_end.records, at_end.high_watermark) == (0, b"", 3)


# --- Produce of old messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 0), (2, 1)])
def test_every_client_reads_old_messages(
    version: int, magic: int, codec: str, bootstrap: str, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic, samples = new_topic(), without_headers(varied(40, seed=version))
    for acks, begin in ((-1, 0), (1, 15), (1, 30)):
        response = produce(connection, version, topic, message_set(samples[begin : begin + 15], magic, codec), acks=acks)
        assert (response.error, response.base_offset, response.log_append_time) == (0, begin, -1)
    written = as_read(samples, magic)
    for fetch_version in (0, 1, 2, 3):
        expected = as_read(written, magic_of(fetch_version))
        assert_equal(fetch_all(connection, fetch_version, topic, 40), expected)
    assert fetch_one(connection, 4, Ask(topic=topic)).records[16] == 2, "the magic on disk"
    for reader in CLIENTS:
        assert_equal(reader.consume(bootstrap, topic, 40), written)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_get_the_brokers_time_where_the_topic_wants_it(
    magic: int, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    response = produce(connection, 2, topic, message_set(varied(5), magic, "gzip"))
    assert response.log_append_time > T0_MS
    parsed = parse(fetch_one(connection, 3, Ask(topic=topic)).records)
    assert parsed.log_append_time
    assert {r.sample.timestamp_ms for r in parsed.records} == {response.log_append_time}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_damaged_old_message_is_refused_and_leaves_nothing(
    version: int, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    good = message_set(without_headers(varied(5)), 0)
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    assert produce(connection, version, topic, damaged).error == CORRUPT_MESSAGE
    assert fetch_one(connection, 2, Ask(topic=topic)).high_watermark == 0
    assert produce(connection, version, topic, good).base_offset == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_new_requests_must_bring_new_batches(magic: int, connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert produce(connection, 3, topic, message_set(varied(5), magic)).error == INVALID_RECORD
    assert fetch_one(connection, 4, Ask(topic=topic)).high_watermark == 0


def test_a_request_without_acks_gets_no_response(connection: Connection, new_topic: Callable[..., str]) -> None:
    topic, samples = new_topic(), without_headers(varied(5))
    connection.send(PRODUCE, 0, produce_body(0, topic, {0: message_set(samples, 0)}, acks=0))
    # the next response on this connection belongs to this request
    response = produce(connection, 0, topic, message_set(samples, 0))
    assert (response.error, response.base_offset) == (0, 5)


# --- ListOffsets v0 -------------------------------------------------------------------------------------------------------------

LATEST, EARLIEST, LONG_AFTER = -1, -2, T0_MS * 2


def test_list_offsets_v0_returns_segments(connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    write_batches(connection, topic, [varied(200)])
    assert list_offsets_v0(connection, topic, LATEST, 1) == (0, [200])
    assert list_offsets_v0(connection, topic, LATEST, 5) == (0, [200, 0])
    assert list_offsets_v0(connection, topic, EARLIEST, 1) == (0, [0])
    assert list_offsets_v0(connection, topic, EARLIEST, 5) == (0, [0])
    assert list_offsets_v0(connection, topic, LONG_AFTER, 5) == (0, [200, 0]), "by the time a segment was last written"
    assert list_offsets_v0(connection, topic, T0_MS, 5) == (0, []), "... not by the timestamps of the records"
    assert list_offsets_v0(connection, topic, LATEST, 0) == (0, [])


def test_list_offsets_v0_serves_empty_and_refuses_unknown_partitions(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    assert list_offsets_v0(connection, topic, LATEST, 5) == (0, [0])
    assert list_offsets_v0(connection, topic, EARLIEST, 5) == (0, [0])
    assert list_offsets_v0(connection, topic, LATEST, 1, partition=3) == (UNKNOWN_TOPIC_OR_PARTITION, [])


def test_list_offsets_v0_counts_segments(connection: Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(segment_bytes="16384")
    sent = write_batches(connection, topic, [varied(30, seed=n) for n in range(12)])
    error, offsets = list_offsets_v0(connection, topic, LATEST, 100)
    assert error == 0
    assert offsets == sorted(offsets, reverse=True)
    assert (offsets[0], offsets[-1]) == (len(sent), 0)
    assert len(offsets) > 3
    assert all(offset % 30 == 0 for offset in offsets), "segments begin with batches"
    assert list_offsets_v0(connection, topic, LATEST, 2) == (0, offsets[:2])
