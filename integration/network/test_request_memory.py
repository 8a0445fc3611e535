"""The memory of a broker that strangers take, and a system that has none left."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testing.clients.stock import confluent_produce, create_topic
from testing.process import procstat
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_peer import free_port
from testing.samples import T0_MS, Sample
from testing.waiting import until
from testing.wire.batches import sample_batch
from testing.wire.raw import API_VERSIONS, FETCH, METADATA, PRODUCE, Ask, Connection, fetch_body, produce_body, string
from testing.wire.raw import request as framed_request
from testing.wire.raw_groups import DESCRIBE_GROUPS, array, find_coordinator, join_alone

pytestmark = pytest.mark.skipif(is_kafka(), reason="about this broker's own process and metrics page")

REQUEST_BYTES_MAX = 100 * 1024 * 1024
ANNOUNCED = struct.pack(">i", REQUEST_BYTES_MAX) + bytes(10)
POOL_USED = "kafka_network_socketserver_memorypoolused"
WAITING = "pybroker_connections_waiting_for_memory"
CLOSED = "pybroker_strangers_closed_total"
UNSENT = "pybroker_unsent_response_bytes"


def gauge(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        lines = [line for line in response.read().decode().splitlines(keepends=True) if line.startswith(name)]
    return sum(
        one.value for family in text_string_to_metric_families("".join(lines)) for one in family.samples if one.name == name
    )


@contextlib.contextmanager
def strangers(broker: BrokerProcess, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 30)) for _ in range(count)]


def serve_one(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        connection.send(API_VERSIONS, 0, b"")
        assert connection.receive(1)


def test_fourteen_bytes_take_no_megabytes(start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}"})
    serve_one(broker)
    gauge(port, POOL_USED)
    before, count = procstat.memory_bytes(broker.pid, "RssAnon"), 100
    with strangers(broker, count) as sockets:
        for one in sockets:
            one.sendall(ANNOUNCED)
        until(lambda: gauge(port, POOL_USED) == count * REQUEST_BYTES_MAX, "the announced sizes are counted")
        grown = procstat.memory_bytes(broker.pid, "RssAnon") - before
        assert grown < count * 64 * 1024, f"{grown} bytes for {count} strangers"
        serve_one(broker)
    until(lambda: gauge(port, POOL_USED) == 0, "the strangers are forgotten")


def test_large_responses_that_clients_do_not_read_are_bounded(start_broker: Callable[..., BrokerProcess]) -> None:
    port, bytes_max, count = free_port(), 8 << 20, 12
    settings = {"pybroker.unsent.response.bytes.max": str(bytes_max), "metrics.listener": f"127.0.0.1:{port}"}
    broker = start_broker(settings)
    names = b"".join(struct.pack(">h", 100) + b"%0100d" % number for number in range(25_000))
    ask = framed_request(METADATA, 4, struct.pack(">i", 25_000) + names + b"\0")
    with strangers(broker, count) as sockets:
        for one in sockets:
            one.sendall(ask)
        kept = bytes_max // (25_000 * 104)  # a response has more than 104 bytes for each name
        until(lambda: gauge(port, CLOSED) >= count - kept, "the connections that waited longest are closed")
        assert gauge(port, CLOSED) < count, "not all"
        serve_one(broker)


def test_many_responses_of_less_than_a_megabyte_that_clients_do_not_read_are_bounded(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    port, bytes_max, count, size = free_port(), 4 << 20, 48, 900_000
    settings = {"pybroker.unsent.response.bytes.max": str(bytes_max), "metrics.listener": f"127.0.0.1:{port}"}
    broker = start_broker(settings)
    find_coordinator(broker.bootstrap)
    with Connection(broker.bootstrap) as member, Connection(broker.bootstrap) as reader:
        identity = join_alone(member, "large", session_ms=300_000, metadata=bytes(size))
        body = array([string(identity.group)])
        ask = framed_request(DESCRIBE_GROUPS, 0, body)
        with contextlib.ExitStack() as stack:
            for _ in range(count):  # one after the other: a connection that waits to send its first request is closed in time
                [one] = stack.enter_context(strangers(broker, 1))
                one.sendall(ask)
                assert gauge(port, UNSENT) <= bytes_max
            assert len(reader.call(DESCRIBE_GROUPS, 0, body)) > size
            most = bytes_max // (size // 3)  # the buffers of the sockets have a part of each
            until(lambda: gauge(port, CLOSED) >= count - most, "the connections that waited longest are closed")
            assert gauge(port, CLOSED) < count, "not all"
            assert 0 < gauge(port, UNSENT) <= bytes_max
        until(lambda: gauge(port, UNSENT) == 0, "a lost connection does not count")
    broker.stop()


def test_strangers_that_hold_the_whole_pool_do_not_keep_small_requests_waiting(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    port = free_port()
    broker = start_broker({"metrics.listener": f"127.0.0.1:{port}", "queued.max.request.bytes": "200000000"})
    create_topic(broker.bootstrap, "small", 1)
    count, requests = 40, 8
    with Connection(broker.bootstrap) as old, strangers(broker, count) as sockets:
        for one in sockets:
            one.sendall(ANNOUNCED)
        until(lambda: gauge(port, WAITING) + 2 + gauge(port, CLOSED) == count, "two strangers hold the pool, the others wait")
        for _ in range(requests):
            assert old.call(API_VERSIONS, 0, b"")
        assert confluent_produce({"bootstrap.servers": broker.bootstrap}, "small", [Sample(None, b"new", T0_MS)]) == [0]
        # Strangers lose their memory after 5 s, two at a time: a client that waits for that sees two of them go for each request.
        assert gauge(port, CLOSED) < requests, "no request waited for memory that strangers hold"
        assert gauge(port, WAITING) > 0
    broker.stop()


def test_a_consumer_that_never_reads_costs_less_than_128_kb(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    create_topic(broker.bootstrap, "unread", 1)
    batch = sample_batch([Sample(None, bytes(500_000), T0_MS)])
    with Connection(broker.bootstrap) as connection:
        for _ in range(16):
            connection.call(PRODUCE, 7, produce_body(7, "unread", {0: batch}, acks=1))
    ask = fetch_body(4, [Ask(topic="unread", partition=0, bytes_max=8_000_000)], bytes_max=8_000_000)
    count = 100

    def consume(stack: contextlib.ExitStack, consumers: int) -> None:
        for _ in range(consumers):
            consumer = stack.enter_context(Connection(broker.bootstrap))
            consumer.send(FETCH, 4, ask)
            assert consumer.socket.recv(4, socket.MSG_PEEK), "the response has begun"

    with contextlib.ExitStack() as stack:
        consume(stack, 5)
        before = procstat.memory_bytes(broker.pid, "RssAnon")
        consume(stack, count)
        serve_one(broker)
        grown = procstat.memory_bytes(broker.pid, "RssAnon") - before
        assert grown < count * 128 * 1024, f"{grown} bytes for {count} consumers"


def test_memory_is_given_back_after_a_peak(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker({"num.partitions": "1"})
    create_topic(broker.bootstrap, "peak", 1)
    batch = sample_batch([Sample(None, bytes(900_000), T0_MS)])
    request = framed_request(PRODUCE, 7, produce_body(7, "peak", {0: batch}, acks=1))
    serve_one(broker)
    before, count = procstat.memory_bytes(broker.pid, "RssAnon"), 200
    with strangers(broker, count) as sockets, procstat.PeakSampler(broker.pid) as sampler:
        for one in sockets:
            one.sendall(request[:-1])
        serve_one(broker)
        for one in sockets:
            one.sendall(request[-1:])
        for one in sockets:
            assert one.recv(4, socket.MSG_PEEK)
    assert sampler.peak_bytes - before > count * 900_000
    allowed = before + (40 << 20)
    until(lambda: procstat.memory_bytes(broker.pid, "RssAnon") < allowed, "the memory of the requests is given back")


def test_a_request_that_gets_no_memory_costs_one_line_and_its_connection(start_broker: Callable[..., BrokerProcess]) -> None:
    port = free_port()
    bound = {"metrics.listener": f"127.0.0.1:{port}", "queued.max.request.bytes": "1500000000"}
    broker = start_broker(bound)
    serve_one(broker)
    gauge(port, POOL_USED)
    room = procstat.memory_bytes(broker.pid, "VmSize") + 150_000_000
    resource.prlimit(broker.pid, resource.RLIMIT_AS, (room, room))
    piece, refused = bytes(1 << 20), 0
    with strangers(broker, 8) as sockets:
        for one in sockets:
            try:
                one.sendall(ANNOUNCED)
                for _ in range(60):
                    one.sendall(piece)
            except ConnectionError:
                refused += 1
        assert refused >= 5, "the system has memory for two of these at most"
        serve_one(broker)
    until(lambda: gauge(port, POOL_USED) == 0, "nothing is counted any more")
    lines = broker.log_text.splitlines()
    assert sum("the system has no memory, thread or descriptor for its request" in line for line in lines) == refused
    assert not [line for line in lines if "Traceback" in line or "bug" in line or "ERROR" in line]
    broker.stop()
