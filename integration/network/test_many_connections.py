"""Storms of connects, and strangers that take all connections."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.clients.stock import confluent_produce, create_topic
from testing.process import procstat
from testing.process.broker import BrokerProcess, is_kafka
from testing.samples import T0_MS, Sample
from testing.wire.batches import sample_batch
from testing.wire.raw import API_VERSIONS, FETCH, PRODUCE, Ask, Connection, fetch_body, produce_body, request

pytestmark = pytest.mark.skipif(is_kafka(), reason="Kafka's own backlog is 50, and it has no room for clients among strangers")

STORM = 1000


def serve_one(broker: BrokerProcess) -> None:
    with Connection(broker.bootstrap) as connection:
        connection.send(API_VERSIONS, 0, b"")
        assert connection.receive(1)


@pytest.mark.skipif(
    int(Path("/proc/sys/net/core/somaxconn").read_text()) < STORM, reason="the system itself lets fewer connections wait"
)
def test_a_storm_of_connects_loses_none_even_while_the_broker_does_not_run(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()
    with contextlib.ExitStack() as stack:
        quiet = stack.enter_context(Connection(broker.bootstrap))  # one that ends now would hold the loop while it does not run
        quiet.send(API_VERSIONS, 0, b"")
        assert quiet.receive(1)
        os.kill(broker.pid, signal.SIGSTOP)
        stack.callback(os.kill, broker.pid, signal.SIGCONT)
        poll = select.poll()
        for _ in range(STORM):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", broker.port))
            poll.register(client, select.POLLOUT)
        ready = [event for _, event in poll.poll(0)]  # loopback responds within the call that sends
        assert ready == [select.POLLOUT] * STORM
    serve_one(broker)
    broker.stop()


STRANGERS, CONNECTIONS = 5_000, 2_000
SIZE_OF_100_MB = (100 << 20).to_bytes(4)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < STRANGERS + 1_000, reason="the strangers need descriptors")
@pytest.mark.parametrize("kind", ["half-open", "trickling", "never-reading"])
def test_strangers_do_not_keep_clients_out(start_broker: Callable[..., BrokerProcess], kind: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    broker = start_broker({"max.connections": str(CONNECTIONS)})
    create_topic(broker.bootstrap, "busy", 1)
    with contextlib.ExitStack() as stack:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        client = stack.enter_context(Connection(broker.bootstrap))
        batch = sample_batch([Sample(None, bytes(500_000), T0_MS)])
        for _ in range(8):
            client.call(PRODUCE, 7, produce_body(7, "busy", {0: batch}, acks=1))
        ask = fetch_body(4, [Ask(topic="busy", partition=0, bytes_max=4_000_000)], bytes_max=4_000_000)
        sent = {"half-open": b"", "trickling": SIZE_OF_100_MB + bytes(10), "never-reading": request(FETCH, 4, ask)}[kind]
        before_bytes = procstat.memory_bytes(broker.pid, "RssAnon")
        for _ in range(STRANGERS):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 30))
            stranger.sendall(sent)
        # A stock client connects while strangers have all connections, and wait for more.
        assert confluent_produce({"bootstrap.servers": broker.bootstrap}, "busy", [Sample(None, b"late", T0_MS)]) == [8]
        assert client.call(API_VERSIONS, 0, b""), "a client that was there before is still served"
        grown = procstat.memory_bytes(broker.pid, "RssAnon") - before_bytes
        assert grown < CONNECTIONS * 150 * 1024, f"{grown} bytes for {STRANGERS} strangers"
    broker.stop()
