"""How much a Fetch returns, by raw requests: KIP-74's rules, the broker's own cap, the wait for enough bytes, fetch sessions."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from testing.clients.stock import create_topic, unique
from testing.process.broker import is_kafka
from testing.samples import T0_MS, Sample
from testing.wire.batches import write_batches
from testing.wire.legacy import parse
from testing.wire.raw import FETCH, Ask, Connection, Fetched, fetch, fetch_body, fetch_one, parse_fetch

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess

RECORD_BYTES = 1000
BATCHES = 20
SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71


def one_record_batches(count: int, size: int = RECORD_BYTES) -> list[list[Sample]]:
    """Return batches that do not grow when they are converted, because a batch of a single record is larger in magic 2."""
    return [[Sample(b"%04d" % n, b"v" * size, T0_MS)] for n in range(count)]


@pytest.fixture
def connection(bootstrap: str) -> Iterator[Connection]:
    with Connection(bootstrap) as opened:
        yield opened


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> list[str]:
    """Create six topics of one partition: the second and the fourth are empty, the third begins with a batch of 30 kB."""
    names = [unique(f"limits{n}") for n in range(6)]
    with Connection(bootstrap) as opened:
        for n, name in enumerate(names):
            create_topic(bootstrap, name)
            if n == 2:
                write_batches(opened, name, one_record_batches(1, 30_000))
            if n not in (1, 3):
                write_batches(opened, name, one_record_batches(BATCHES))
    return names


def sizes_of_batches(records: bytes) -> list[int]:
    """Return the sizes of the whole batches or messages in front, without the partial one that may follow."""
    sizes, position = [], 0
    while position + 12 <= len(records):
        size = 12 + int.from_bytes(records[position + 8 : position + 12])
        if position + size > len(records):
            break
        sizes.append(size)
        position += size
    return sizes


def assert_kip_74(responses: Sequence[Fetched], whole: dict[str, bytes], limits: dict[str, int], bytes_max: int) -> None:
    """Assert that each partition, in the order of the request, has up to min(its limit, what is left), and the first non-empty
    one a whole batch.

    A broker may end a partition with a partial batch or leave that out, so what is left is counted from what the broker sent.
    """
    left, anything = bytes_max, False
    for got in responses:
        available = sizes_of_batches(whole[got.topic])
        limit = min(limits[got.topic], left)
        fitting = 0
        for size in available:
            if fitting + size > limit:
                break
            fitting += size
        if not fitting and not anything and available:
            assert len(got.records) == available[0], "a first batch that does not fit is sent alone"
        elif not fitting:
            assert got.records == b"", "nothing, rather than a part of a batch"
        else:
            assert fitting <= len(got.records) <= min(limit, sum(available))
            assert sum(sizes_of_batches(got.records)) == fitting
        anything = anything or bool(got.records)
        left = max(0, left - len(got.records))


VERSIONS, LIMITS, FIRSTS = (3, 4, 7, 11), (1, 3_000, 1 << 20), (0, 1, 2)
BYTES_MAX = (0, 1, 1100, 5_000, 25_000, 40_000, 60_000, 0x7FFFFFFF)


def every_pair() -> list[tuple[int, int, int, int]]:
    """Return cases of first topic, limit, size and version, in which any two values of two of them occur together.

    Size and version have the most values, and each pair of them is a case; the other two take turns until they meet everything.
    The unit tests of fetch draw further combinations, without a socket.
    """
    cases = [
        (FIRSTS[(row + row // len(FIRSTS) + column) % len(FIRSTS)], LIMITS[(row + 2 * column) % len(LIMITS)], bytes_max, version)
        for row, bytes_max in enumerate(BYTES_MAX)
        for column, version in enumerate(VERSIONS)
    ]
    axes = [FIRSTS, LIMITS, BYTES_MAX, VERSIONS]
    for one, other in itertools.combinations(range(len(axes)), 2):
        assert {(case[one], case[other]) for case in cases} == set(itertools.product(axes[one], axes[other])), (one, other)
    return cases


@pytest.mark.parametrize(("first", "limit", "bytes_max", "version"), every_pair())
def test_the_response_is_limited_as_a_whole_and_by_partition(
    first: int, limit: int, bytes_max: int, version: int, topics: list[str], connection: Connection
) -> None:
    order = topics[first:] + topics[:first]
    whole = {f.topic: f.records for f in fetch(connection, 4, [Ask(topic=name, bytes_max=1 << 30) for name in topics]).partitions}
    limits = {name: limit * (1 + n % 2) for n, name in enumerate(order)}
    response = fetch(connection, version, [Ask(topic=n, bytes_max=limits[n]) for n in order], bytes_max=bytes_max)
    assert [f.topic for f in response.partitions] == order
    assert all(f.error == 0 for f in response.partitions)
    if version >= 4:
        assert_kip_74(response.partitions, whole, limits, bytes_max)
    total = sum(len(f.records) for f in response.partitions)
    first_batch = next(s[0] for name in order if (s := sizes_of_batches(whole[name])))
    assert total <= max(bytes_max, first_batch)
    assert total > 0, "there is always progress"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_3_have_no_limit_for_the_whole_response_and_exceed_none(
    version: int, topics: list[str], connection: Connection
) -> None:
    for limit in (10, 500, 3_000, 1 << 20):
        for got in fetch(connection, version, [Ask(topic=name, bytes_max=limit) for name in topics]).partitions:
            assert len(got.records) <= limit
            if limit == 1 << 20:
                expected = {topics[1]: 0, topics[2]: BATCHES + 1, topics[3]: 0}.get(got.topic, BATCHES)
                assert len(sizes_of_batches(got.records)) == expected


@pytest.mark.skipif(is_kafka(), reason="it sends nothing there")
@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_before_3_cut_a_first_batch_that_does_not_fit(
    version: int, codec: str, connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    sent = write_batches(
        connection, topic, [[Sample(b"%04d" % n, random.Random(n).randbytes(45).hex().encode(), T0_MS) for n in range(10)]], codec
    )
    for limit in (1, 11, 12, 100, 500):
        got = fetch_one(connection, version, Ask(topic=topic, bytes_max=limit)).records
        assert len(got) == limit
        whole = fetch_one(connection, version, Ask(topic=topic)).records
        assert got == whole[:limit], "as if the disk had the converted batch"
    parsed = parse(got)
    if codec == "none":
        assert len(parsed.records) == 500 // (128 if version == 2 else 120), "the whole messages that fit are delivered"
        assert [r.sample.value for r in parsed.records] == [s.value for s in sent[: len(parsed.records)]]
    else:
        assert parsed.records == []


def test_the_broker_caps_every_response(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"fetch.max.bytes": "10000"})
    create_topic(broker.bootstrap, "capped")
    with Connection(broker.bootstrap) as connection:
        write_batches(connection, "capped", [*one_record_batches(BATCHES), *one_record_batches(1, 50_000)])
        for version in (3, 4, 11):
            (got,) = fetch(connection, version, [Ask(topic="capped", bytes_max=1 << 30)]).partitions
            assert 9_000 < len(got.records) <= 10_000
            (got,) = fetch(connection, version, [Ask(topic="capped", offset=BATCHES, bytes_max=1 << 30)]).partitions
            assert len(sizes_of_batches(got.records)) == 1, "a batch larger than the cap still gets through"


def test_a_fetch_waits_until_there_are_enough_bytes_or_its_time_is_over(
    connection: Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    write_batches(connection, topic, one_record_batches(1))

    def timed(bytes_min: int, wait_ms: int) -> tuple[float, Fetched]:
        began = time.monotonic()
        body = fetch_body(4, [Ask(topic=topic)], bytes_min=bytes_min, wait_ms=wait_ms)
        (got,) = parse_fetch(4, connection.call(FETCH, 4, body)).partitions
        return time.monotonic() - began, got

    seconds, got = timed(bytes_min=1, wait_ms=20_000)
    assert seconds < 10, "there is enough at once"
    assert got.records
    seconds, got = timed(bytes_min=1_000_000, wait_ms=400)
    assert 0.35 < seconds < 10
    assert len(sizes_of_batches(got.records)) == 1, "what there is, when the time is over"
    seconds, got = timed(bytes_min=1_000_000, wait_ms=0)
    assert seconds < 10
    assert got.records


def test_other_connections_are_served_while_one_waits(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    with Connection(bootstrap) as waiting, Connection(bootstrap) as writing:
        asked = waiting.send(FETCH, 4, fetch_body(4, [Ask(topic=topic)], wait_ms=25_000, bytes_min=3000))
        for n in range(3):
            assert fetch_one(writing, 4, Ask(topic=topic)).high_watermark == n
            write_batches(writing, topic, one_record_batches(1))
        (got,) = parse_fetch(4, waiting.receive(asked)).partitions  # well before its 25 s: the socket's limit is 30 s
        assert len(sizes_of_batches(got.records)) == 3


# --- fetch sessions (KIP-227) ---------------------------------------------------------------------------------------------------


def session_fetch(connection: Connection, asks: Sequence[Ask], session_id: int, epoch: int) -> tuple[int, int, dict[str, int]]:
    """Return the error, the session's id, and the size of each partition's record set in the response."""
    body = fetch_body(7, asks, session_id=session_id, session_epoch=epoch)
    response = parse_fetch(7, connection.call(FETCH, 7, body))
    return response.error, response.session_id, {f.topic: len(f.records) for f in response.partitions}


def test_a_fetch_session_returns_only_what_is_new(connection: Connection, new_topic: Callable[..., str]) -> None:
    one, two = new_topic(), new_topic()
    (size,) = {len(fetch_one(connection, 4, Ask(topic=t)).records) for t in (one, two)}
    assert size == 0
    error, session, sizes = session_fetch(connection, [Ask(topic=one), Ask(topic=two)], 0, 0)
    assert (error, sizes) == (0, {one: 0, two: 0})
    assert session != 0
    assert session_fetch(connection, [], session, 1) == (0, session, {})
    write_batches(connection, two, one_record_batches(1))
    error, _, sizes = session_fetch(connection, [], session, 2)
    assert error == 0
    assert list(sizes) == [two]
    assert sizes[two] > RECORD_BYTES
    assert session_fetch(connection, [Ask(topic=two, offset=1)], session, 3) == (0, session, {})
    assert session_fetch(connection, [], session, 3)[0] == INVALID_SESSION_EPOCH
    assert session_fetch(connection, [], session ^ 1, 1)[0] == SESSION_ID_NOT_FOUND
    assert session_fetch(connection, [Ask(topic=one)], session, -1) == (0, 0, {one: 0}), "epoch -1 ends the session"
    assert session_fetch(connection, [], session, 4)[0] == SESSION_ID_NOT_FOUND
