"""Requests between processes come in order, late or never, and every one of them has one end."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import encode_response
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from testing.simulation.cluster.network import Network, SimulatedPeers
from testing.simulation.cluster.process import Process
from testing.simulation.cluster.scheduling import Scheduler

TIMEOUT_MS = 5_000


class Server(Process):
    """A process that responds with the number of the requests that it has served."""

    served = 0

    def handle(self, context: ConnectionContext, frame: memoryview) -> Any:
        self.served += 1
        (response,) = encode_response(HeartbeatResponse(error_code=self.served), 4, 77)
        return response


class Scene:
    """A client, which is node 1, and a server, which is node 2. `ends` has the response of each request, or None."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(ManualClock(), Random(5))
        self.network = Network(self.scheduler, Random(5))
        self.client = Process(self.scheduler, 1, [])
        self.server = Server(self.scheduler, 2, [])
        self.network.serving[2] = self.server
        self.peers = SimulatedPeers(self.network, self.client)
        self.ends: list[int | None] = []

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
            self.peers.send(2, request, self._note, timeout_ms=TIMEOUT_MS)

    def _note(self, response: Any) -> None:
        self.ends.append(None if response is None else response.error_code)

    def pass_ms(self, length_ms: int) -> None:
        self.scheduler.run_for(length_ms)


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    for process in (made.client, made.server):
        if not process.is_dead:
            process.end()


def test_requests_are_served_in_order(scene: Scene) -> None:
    scene.send(20)
    scene.pass_ms(4_000)
    assert scene.ends == list(range(1, 21))


def test_a_request_to_no_broker_has_no_response_and_the_next_one_has(scene: Scene) -> None:
    del scene.network.serving[2]
    scene.send(2)
    scene.pass_ms(1_000)
    assert scene.ends == [None, None]
    scene.network.serving[2] = scene.server
    scene.send()
    scene.pass_ms(1_000)
    assert scene.ends == [None, None, 1]


@pytest.mark.parametrize(("cut", "served"), [((1, 2), 0), ((2, 1), 1)])
def test_what_a_cut_link_holds_ends_without_a_response_and_may_be_carried_out(
    scene: Scene, cut: tuple[int, int], served: int
) -> None:
    scene.network.cut.add(cut)
    scene.send(2)
    scene.pass_ms(TIMEOUT_MS - 1)
    assert scene.ends == []
    scene.pass_ms(10)
    assert scene.ends == [None, None]
    assert scene.server.served == served
    scene.network.heal()
    scene.send()
    scene.pass_ms(1_000)
    assert len(scene.ends) == 3
    assert scene.ends[2] == scene.server.served


def test_a_process_that_ends_breaks_its_connections_but_a_machine_without_power_does_not(scene: Scene) -> None:
    scene.send()
    scene.pass_ms(1_000)
    assert scene.ends == [1]
    scene.network.cut.add((2, 1))
    scene.send()
    scene.pass_ms(1_000)
    scene.network.cut.clear()
    scene.server.end()
    scene.network.end(scene.server, is_silent=False)
    scene.pass_ms(1_000)
    assert scene.ends == [1, None]


def test_a_machine_without_power_breaks_no_connection_and_sends_nothing_more(scene: Scene) -> None:
    scene.network.cut.add((2, 1))
    scene.send()
    scene.pass_ms(1_000)
    scene.server.end()
    scene.network.end(scene.server, is_silent=True)
    scene.network.lose_what_is_sent_by(2)
    scene.network.heal()
    scene.pass_ms(2_000)
    assert scene.ends == []
    scene.pass_ms(TIMEOUT_MS)
    assert scene.ends == [None]


def test_a_broken_connection_ends_what_waits_for_it(scene: Scene) -> None:
    assert not scene.network.break_one()
    scene.network.cut.add((2, 1))
    scene.send(3)
    scene.pass_ms(1_000)
    scene.network.cut.clear()
    assert scene.network.break_one()
    scene.pass_ms(1_000)
    assert scene.ends == [None, None, None]
    assert scene.server.served == 1
