"""Storms of connects, and strangers that take all connections."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.process.broker import BrokerProcess, is_kafka
from testing.wire.raw import API_VERSIONS, Connection

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
    serve_one(broker)
    with contextlib.ExitStack() as stack:
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
