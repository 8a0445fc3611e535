"""A broker changes nothing of the process that it is a guest of."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import uvloop

from pybroker.client.connection import Connection
from pybroker.client.frames import Frames
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.testing import Broker

LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_STACK, resource.RLIMIT_CORE)
TIMEOUT_S = 30.0


def host() -> dict[str, Any]:
    """Return what a guest must not change."""
    root = logging.getLogger()
    return {
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "wake-up descriptor": wake_up_descriptor(),
        "logs": (root.level, [*root.handlers], logging.getLogger("pybroker").level, [*logging.getLogger("pybroker").handlers]),
        "policy": asyncio.get_event_loop_policy(),
        "metrics": [*prometheus_client.REGISTRY._names_to_collectors],
        "limits": [resource.getrlimit(kind) for kind in LIMITS],
        "scheduling": (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)),
        "garbage": (gc.isenabled(), gc.get_threshold(), [*gc.callbacks]),
        "switch interval": sys.getswitchinterval(),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "environment": dict(os.environ),
        "directory": Path.cwd(),
    }


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    before = gc.get_freeze_count()
    yield
    assert gc.get_freeze_count() <= before, "frozen objects may end, and no others are frozen"


def wake_up_descriptor() -> int:
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor


def kept() -> dict[str, Any]:
    """Return what must be as before when a guest has left."""
    return {"threads": threading.enumerate(), "descriptors": len([*Path("/proc/self/fd").iterdir()])}


@pytest.fixture(autouse=True)
def _policy_is_set() -> None:
    asyncio.get_event_loop_policy()


@contextlib.contextmanager
def connected(port: int) -> Iterator[Connection]:
    with Frames(socket.create_connection(("127.0.0.1", port), TIMEOUT_S), address=str(port), client_id="test") as frames:
        connection = Connection(frames)
        connection.ask_versions(3)
        yield connection


async def versions_are_served(port: int) -> bool:
    """Ask the broker for its versions from its own loop."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(bytes.fromhex("0000000a 0012 0000 00000007 0000".replace(" ", "")))
    size = int.from_bytes(await reader.readexactly(4))
    response = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    return response[:6] == bytes.fromhex("000000070000")


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_broker_in_a_loop_leaves_its_host_as_it_was(new_loop: Any) -> None:
    async def work() -> None:
        before, tasks = host(), asyncio.all_tasks()
        async with Broker() as broker:
            assert host() == before
            assert await versions_are_served(broker.port)
        assert host() == before
        assert asyncio.all_tasks() == tasks

    with asyncio.Runner(loop_factory=new_loop) as runner:  # the first one imports
        runner.run(work())
    before = kept()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(work())
    assert kept() == before


def test_a_broker_in_a_thread_leaves_its_host_as_it_was() -> None:
    with Broker.in_thread():  # imports
        pass
    before, kept_before = host(), kept()
    with Broker.in_thread() as broker, connected(broker.port) as connection:
        assert host() == before
        connection.call(MetadataRequest(topics=None))
    assert host() == before
    assert kept() == kept_before


def test_a_broker_in_a_thread_needs_no_main_thread() -> None:
    served: list[int] = []

    def work() -> None:
        with Broker.in_thread() as broker, connected(broker.port) as connection:
            served.append(connection.call(ApiVersionsRequest(), 0).error_code)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    assert served == [0]


async def test_two_brokers_do_not_meet() -> None:
    async with Broker() as one, Broker() as two:
        assert one.port != two.port
        assert await versions_are_served(one.port)
        assert await versions_are_served(two.port)


def test_two_brokers_have_clusters_of_their_own() -> None:
    with Broker.in_thread() as one, Broker.in_thread() as two, connected(one.port) as first, connected(two.port) as second:
        known, other = first.call(MetadataRequest(topics=None)), second.call(MetadataRequest(topics=None))
        assert known.cluster_id != other.cluster_id
        assert [broker.port for broker in known.brokers] == [one.port]
        assert [broker.port for broker in other.brokers] == [two.port]
