"""The network between the processes of a simulated cluster, which is slow, is cut, and breaks connections.

What is sent comes late, or not before the link is whole again. A link can be cut in one direction. A connection that breaks, or
whose response does not come in time, ends all its requests without a response, and each of them may have been carried out, or may
be yet. A process that ends breaks its connections.

    network = Network(scheduler, random)
    peers = SimulatedPeers(network, process)
    peers.send(2, request, done)
    network.cut.add((1, 2))          what 1 sends to 2 is held
    network.heal()
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from pybroker.api.registry import APIS
from pybroker.network.context import ConnectionContext, ProtocolViolation
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_response, encode_request, response_class
from pybroker.protocol.schema import schema_of
from testing.scenes.api.whole import collected

if TYPE_CHECKING:
    from testing.simulation.cluster.process import Process
    from testing.simulation.cluster.scheduling import Scheduler

TIMEOUT_MS = 5_000
Done = Callable[[Any], object]


class Network:
    """The links between all processes. `cut` has the pairs (from, to) of nodes whose link is cut."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler, self.random = scheduler, random
        self.slow_share = 0.02
        self.cut: set[tuple[int, int]] = set()
        self.serving: dict[int, Process] = {}
        self.links: list[_Link] = []
        self._held: list[tuple[int, int, Callable[[], object]]] = []
        self._losses: Counter[int] = Counter()  # how often a machine has lost what it had sent

    def carry(self, source: int, target: int, deliver: Callable[[], object]) -> None:
        """Call `deliver` after the delay of the link, and not while the link is cut."""
        losses = self._losses[source]

        def arrive() -> None:
            if (source, target) in self.cut:
                self._held.append((source, target, arrive))
            elif self._losses[source] == losses:
                deliver()

        self.scheduler.later(self._delay_ms(), arrive)

    def lose_what_is_sent_by(self, node: int) -> None:
        """Lose what a machine that has lost its power has sent, and what was not delivered yet."""
        self._losses[node] += 1

    def _delay_ms(self) -> int:
        drawn = self.random.random()
        return self.random.randrange(20, 400) if drawn < self.slow_share else int(drawn * 3)

    def heal(self) -> None:
        """Make all links whole; what was held is delivered."""
        self.cut.clear()
        held, self._held = self._held, []
        for _, _, arrive in held:
            self.scheduler.later(self._delay_ms(), arrive)

    def end(self, process: Process, *, is_silent: bool) -> None:
        """Break the connections to a process that has ended; a machine without power leaves them open."""
        if self.serving.get(process.node) is process:
            del self.serving[process.node]
        if not is_silent:
            self.reset(process)
        for link in [link for link in self.links if link.lane.source is process]:
            link.lose()

    def reset(self, process: Process) -> None:
        """Break all connections to a process."""
        for link in [link for link in self.links if link.target is process]:
            link.reset()

    def is_in_work(self, process: Process) -> bool:
        """Return whether a process has requests that have no response yet."""
        return any(link.is_waiting for link in self.links if link.target is process)

    def break_one(self) -> bool:
        """Break a connection that waits for a response, if there is one."""
        waiting = [link for link in self.links if link.is_waiting and not link.lane.source.is_dead]
        if waiting:
            self.random.choice(waiting).reset()
        return bool(waiting)


class Channel:
    """Messages in one direction, which come in their order."""

    def __init__(self, network: Network, source: int, target: int) -> None:
        self._network, self._source, self._target = network, source, target
        self._messages: deque[Callable[[], object]] = deque()

    def send(self, deliver: Callable[[], object]) -> None:
        """Call `deliver` later, behind what was sent before."""
        self._messages.append(deliver)
        self._network.carry(self._source, self._target, self._deliver_oldest)

    def _deliver_oldest(self) -> None:
        self._messages.popleft()()


class _Call:
    """A request that waits for its response."""

    __slots__ = ("done", "frame", "is_over", "key", "version")

    def __init__(self, request: object, version: int, done: Done) -> None:
        key = schema_of(type(request)).api_key
        assert key is not None
        self.key, self.version, self.done, self.is_over = key, version, done, False
        parts = encode_request(request, version, correlation_id=77, client_id="simulated")
        self.frame = b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]  # no late parts


class _Link:
    """A connection of a lane. `target` is the process at its other end, once a request has come there."""

    _numbers = itertools.count(1)

    def __init__(self, lane: _Lane) -> None:
        self.lane = lane
        self.target: Process | None = None
        self.context = ConnectionContext(connection_id=next(self._numbers), local_host="127.0.0.1", local_port=9092)

    @property
    def is_waiting(self) -> bool:
        return self.lane.link is self and bool(self.lane.calls)

    def reset(self) -> None:
        """Let both ends notice that the connection is broken."""
        lane, network = self.lane, self.lane.network
        network.carry(lane.target, lane.source.node, lambda: lane.source.post(lane.broken, self))
        self.lose()

    def lose(self) -> None:
        """Let the process at the other end notice it."""
        lane, target = self.lane, self.target
        if self in lane.network.links:
            lane.network.links.remove(self)
        if target is not None:
            lane.network.carry(lane.source.node, lane.target, lambda: target.post(self.context.lose))


class _Lane:
    """The requests of a process to a node, one at a time."""

    def __init__(self, network: Network, source: Process, target: int) -> None:
        self.network, self.source, self.target = network, source, target
        self.link: _Link | None = None
        self.calls: deque[_Call] = deque()

    def send(self, call: _Call, timeout_ms: int) -> None:
        self.calls.append(call)
        self.source.loop.call_later(timeout_ms / 1000, self._time_out, call)
        if len(self.calls) == 1:
            self._begin()

    def _begin(self) -> None:
        if self.link is None:
            self.link = _Link(self)
            self.network.links.append(self.link)
        link, call = self.link, self.calls[0]
        self.network.carry(self.source.node, self.target, lambda: self._arrive(link, call))

    def _arrive(self, link: _Link, call: _Call) -> None:
        process = self.network.serving.get(self.target)
        if process is None or link.target not in {None, process}:
            link.reset()
        else:
            link.target = process
            process.post(self._serve, process, link, call)

    def _serve(self, process: Process, link: _Link, call: _Call) -> None:
        if link.context.is_lost:
            return
        try:
            sent = process.handle(link.context, memoryview(bytearray(call.frame)))
        except ProtocolViolation as error:
            process.problems.append(f"broker {process.node} refuses {call.key.name}: {error}")
            link.reset()
            return
        if isinstance(sent, asyncio.Future):
            sent.add_done_callback(lambda done: None if done.cancelled() else self._respond(process, link, call, done.result()))
        else:
            self._respond(process, link, call, sent)

    def _respond(self, process: Process, link: _Link, call: _Call, sent: Any) -> None:
        data = None if sent is None else collected(sent)
        if data is not None:
            process.responds(call.key, call.version, data)
        self.network.carry(process.node, self.source.node, lambda: self.source.post(self._responded, link, call, data))

    def _responded(self, link: _Link, call: _Call, data: bytes | None) -> None:
        if call.is_over or link is not self.link:
            return
        call.is_over = True
        self.calls.popleft()
        if self.calls:
            self._begin()
        response = None
        if data is not None:
            _, response = decode_response(response_class(call.key), call.version, memoryview(bytearray(data))[4:])
        call.done(response)

    def _time_out(self, call: _Call) -> None:
        if not call.is_over and self.link is not None:
            self.link.lose()
            self.broken(self.link)

    def broken(self, link: _Link) -> None:
        """End all requests without a response."""
        if link is not self.link:
            return
        self.link = None
        calls, self.calls = self.calls, deque()
        for call in calls:
            call.is_over = True
            call.done(None)


class SimulatedPeers:
    """Sends the requests of one process, as `Peers` does: in order by broker and lane, each with one `done`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process
        self._lanes: dict[tuple[int, str], _Lane] = {}

    def close(self) -> None:
        """Do nothing: a process that ends breaks its connections."""

    def send(
        self,
        broker_id: int,
        request: object,
        done: Done,
        *,
        lane: str = "",
        timeout_ms: int = TIMEOUT_MS,
        version: int | None = None,
    ) -> None:
        """Send a request, by default in the newest version, and call `done` with the response, or with None."""
        key = schema_of(type(request)).api_key
        assert key is not None
        found = self._lanes.get((broker_id, lane))
        if found is None:
            found = self._lanes[broker_id, lane] = _Lane(self._network, self._process, broker_id)
        found.send(_Call(request, APIS[ApiKey(key)].highest if version is None else version, done), timeout_ms)

    async def ask(self, broker_id: int, request: object, **options: Any) -> Any:
        """Return the response, or None."""
        future = asyncio.get_running_loop().create_future()
        self.send(broker_id, request, lambda response: future.done() or future.set_result(response), **options)
        return await future
