"""The socket server: listeners, limits on connections, idle connections, stopping."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pybroker.long_work import CONVERSIONS, LongWork
from pybroker.network.acceptor import ACCEPTS_AT_ONCE, Acceptor
from pybroker.network.admission import Admission
from pybroker.network.binding import bind_all, refusal
from pybroker.network.connection import Connection
from pybroker.network.context import ConnectionContext, RequestHandler
from pybroker.network.counters import ListenerCounters
from pybroker.network.hangups import Hangups
from pybroker.network.large_pieces import LargePieces
from pybroker.network.limits import UNLIMITED, BoundListener, Listener, NetworkLimits, host_and_port
from pybroker.network.mute import MuteCounters
from pybroker.network.receiver import new_scratch
from pybroker.network.strangers import LOOK_MS, Strangers
from pybroker.security.principal import ANONYMOUS
from pybroker.sharing.turns.watchdog import watchdog_of

if TYPE_CHECKING:
    import socket

    from pybroker.network._connection_python import ConnectionCore
    from pybroker.network.connection_rates import ConnectionRates
    from pybroker.network.gate import Gate
    from pybroker.network.handshakes import Handshakes
    from pybroker.network.memory_pool import MemoryPool

logger = logging.getLogger(__name__)

_NS_PER_MS: Final = 1_000_000
_NOTE_SHARE: Final = 100

_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104  to compare with

IDLE_PER_TURN: Final = 500
"""The number of idle connections that are closed in a turn of the loop, at 2 to 4 us each."""


class SocketServer:
    """Accepts connections and hands their requests to `handler`.

    Args:
        listeners: where to listen.
        handler: called with each request, in the loop.
        memory_pool: the memory of requests; the server makes it wake its own connections.
        limits: see NetworkLimits.
        address_for: returns the host and port that a new client must use; None: the address that it has connected to.
        conversions: the threads of conversions for old clients.
        on_lost: called with each connection that is gone.
        gates: by the name of its listener, what takes requests until the client has logged in.
        may_connect: returns whether an address may open one more connection now.
        now_ns: monotonic time in ns.

    What the metrics exporter may read
        listener_counters   per listener name: see ListenerCounters
        mute_counters       see MuteCounters
        memory_pool         see MemoryPool
        admission           queued_requests (gauge), waiting (connections without memory, gauge)
        connections_open    gauge over all listeners
        gates               by listener, those where clients log in: see Gate
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: RequestHandler,
        memory_pool: MemoryPool,
        limits: NetworkLimits,
        *,
        address_for: Callable[[ConnectionContext], tuple[str, int]] | None = None,
        conversions: LongWork | None = None,
        on_lost: Callable[[ConnectionCore], None] = lambda _: None,
        gates: Mapping[str, Gate] = MappingProxyType({}),
        may_connect: Callable[[str], bool] = lambda _: True,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.listeners = tuple(listeners)
        self.handler = handler
        self.memory_pool = memory_pool
        self._limits = limits
        self._address_for = address_for
        self._on_lost, self.gates, self._may_connect = on_lost, gates, may_connect
        self.conversions = conversions or LongWork("convert", CONVERSIONS)
        self.now_ns = now_ns
        self.admission = Admission(memory_pool, limits.queued_max_requests)
        self.large_pieces = LargePieces()
        self.strangers = Strangers(now_ns)
        self.request_bytes_max = limits.socket_request_max_bytes
        self.scratch = new_scratch(limits.socket_request_max_bytes)
        self.mute_counters = MuteCounters()
        self.listener_counters = {listener.name: ListenerCounters(listener.name) for listener in self.listeners}
        self._acceptors: list[Acceptor] = []
        self._rates: ConnectionRates | None = None
        self.handshakes: dict[str, Handshakes] = {}  # of the listeners with TLS
        self._hangups: Hangups | None = None  # while started
        self._connections: OrderedDict[ConnectionCore, None] = OrderedDict()  # least recently active first
        self._per_ip: dict[str, int] = {}
        self._last_connection_id = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._look_timer: asyncio.TimerHandle | None = None
        self._looking: Iterator[None] = iter(())  # a look at the connections that is not finished
        self._all_lost: asyncio.Event | None = None  # while stopping

    @property
    def connections_open(self) -> int:
        """The number of open connections of all listeners."""
        return len(self._connections)

    def connections(self) -> list[ConnectionCore]:
        """Return the open connections of all listeners."""
        return list(self._connections)

    @property
    def limits(self) -> NetworkLimits:
        """The limits in force; when they are replaced, waiting clients are accepted as far as there is room."""
        return self._limits

    @limits.setter
    def limits(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._let_in()

    @property
    def accept_shortages(self) -> int:
        """How many times the system had no descriptor for a connection."""
        return sum(acceptor.shortages for acceptor in self._acceptors)

    async def start(self, sockets: Sequence[socket.socket] | None = None) -> list[BoundListener]:
        """Listen at every listener, or at none, and accept connections.

        `sockets` are what `bind_all` returned for the listeners; the server owns them from now on. By default it binds its own.

        Raises:
            OSError: the system refuses an address; its text names the listener.
        """
        loop = asyncio.get_running_loop()
        watchdog = watchdog_of(loop)
        self.turns, self.turn_later = watchdog.watch, watchdog.rounds.turn_later
        self.memory_pool.call_soon_threadsafe = loop.call_soon_threadsafe
        if sockets is None:
            sockets = await bind_all(
                self.listeners,
                send_buffer_bytes=self.limits.socket_send_buffer_bytes,
                receive_buffer_bytes=self.limits.socket_receive_buffer_bytes,
            )
        self._hangups = Hangups(loop)
        result = []
        for listener, listening in zip(self.listeners, sockets, strict=True):
            host, port = listening.getsockname()[:2]
            acceptor = Acceptor(
                listening,
                backlog=self.limits.socket_listen_backlog_size,
                connection=self._factory(loop, listener, listening),
                room=functools.partial(self._room, listener),
                pause_ms=functools.partial(self._pause_ms, listener),
                on_arrived=self._let_in,
                on_full=self._make_room,
                name=listener.name,
                handshakes=self._handshakes_of(listener),
            )
            self._acceptors.append(acceptor)
            try:
                acceptor.start()
            except OSError as error:
                self._close_acceptors()
                raise refusal(listener, error) from error
            result.append(BoundListener(name=listener.name, host=host, port=port, tls=listener.tls))
            logger.info("Listening at %s (%s)", host_and_port(host, port), listener.name)
        if self.limits.connections_max_idle_ms > 0:
            self._schedule_idle_check(loop, self.limits.connections_max_idle_ms)
        self._schedule_look(loop, LOOK_MS)
        return result

    async def stop(self, grace_ms: int) -> None:
        """Accept no more connections, let requests in work complete, and close everything, within `grace_ms`."""
        self._all_lost = asyncio.Event()
        self._close_acceptors()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._look_timer is not None:
            self._look_timer.cancel()
        for connection in list(self._connections):
            connection.end()
        if self._connections:
            try:
                await asyncio.wait_for(self._all_lost.wait(), grace_ms / 1000)
            except TimeoutError:
                logger.info("Closing %d connections whose requests got no response within %d ms", self.connections_open, grace_ms)
                for connection in list(self._connections):
                    connection.abort()
                await self._all_lost.wait()
        for acceptor in self._acceptors:
            await acceptor.settled()
        self._acceptors.clear()
        if self._hangups is not None:
            self._hangups.close()
            self._hangups = None

    def abort(self) -> None:
        """Accept no more connections, and cut all of them as the end of a process does. Call `stop` afterwards."""
        self._close_acceptors()
        for connection in self.connections():
            connection.abort()

    # -- what connections call

    def opened(self, connection: ConnectionCore) -> bool:
        """Count and admit a connection, unless a limit forbids it."""
        context, counters = connection.context, connection.counters
        extra = connection.extra
        context.peer_host, context.peer_port = _address(extra("peername"))
        if not context.local_port:
            context.local_host, context.local_port = _address(extra("sockname"))
        refusal = self._refusal(context)
        if refusal is not None:
            counters.connections_refused += 1
            logger.info("Refusing a connection from %s at %s: %s", context.peer_host, context.listener_name, refusal)
            return False
        if context.listener_name in self.handshakes and not self.handshakes[context.listener_name].identify(context, extra):
            return False
        local = context.local_host, context.local_port
        context.advertised_host, context.advertised_port = local if self._address_for is None else self._address_for(context)
        self._last_connection_id += 1
        context.connection_id = self._last_connection_id
        connection.active_ns = self.now_ns()
        counters.connections_created += 1
        counters.connections_open += 1
        self._per_ip[context.peer_host] = self._per_ip.get(context.peer_host, 0) + 1
        self._connections[connection] = None
        self.strangers.opened(connection)
        return True

    def guard(self, connection: Connection) -> None:
        """Give the requests of a new connection to the gate of its listener."""
        gate = self.gates[connection.context.listener_name]
        connection.serve_by(gate.handle, gate.request_bytes_max)

    def requested(self, connection: ConnectionCore) -> None:
        """Note the first request of a connection, or its login."""
        if connection.context.login is None or connection.context.principal != ANONYMOUS:
            self.strangers.requested(connection)

    def active(self, connection: ConnectionCore) -> int:
        """Mark the connection as active, the last to be idle; its next mark may come `_NOTE_SHARE` of the idle time later.

        So the connections are in the order of their activity only up to that share, and one may be closed that much later.
        """
        self._connections.move_to_end(connection)
        return connection.active_ns + self.limits.connections_max_idle_ms * _NS_PER_MS // _NOTE_SHARE

    def unread(self, connection: ConnectionCore) -> None:
        """Count a response that the peer does not take at once."""
        self.strangers.unread(connection, self._limits.unsent_response_bytes_max)

    def taken(self, connection: ConnectionCore) -> None:
        """Count a response no more."""
        self.strangers.taken(connection)

    def lost(self, connection: ConnectionCore) -> None:
        """Forget a connection."""
        del self._connections[connection]
        self._on_lost(connection)
        self.strangers.lost(connection)
        connection.counters.connections_open -= 1
        connection.counters.connections_closed += 1
        peer_host = connection.context.peer_host
        left = self._per_ip[peer_host] - 1
        if left:
            self._per_ip[peer_host] = left
        else:
            del self._per_ip[peer_host]
        if self._all_lost is not None and not self._connections:
            self._all_lost.set()
        self._let_in()

    def watch(self, connection: ConnectionCore) -> None:
        """Watch for the end of the peer of a connection that is not read."""
        assert self._hangups is not None
        self._hangups.watch(connection)

    def unwatch(self, connection: ConnectionCore) -> None:
        """Stop watching the connection."""
        assert self._hangups is not None
        self._hangups.unwatch(connection)

    # -- idle connections

    def _schedule_idle_check(self, loop: asyncio.AbstractEventLoop, delay_ms: float) -> None:
        self._idle_timer = loop.call_later(max(delay_ms, 1) / 1000, self._check_idle, loop)

    def _check_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close connections idle for connections.max.idle.ms; O(1) plus those closed, because the longest idle come first.

        If more are due than are closed in a turn, the oldest of the others makes the next check come at once.
        """
        now_ns = self.now_ns()
        idle_ns = self.limits.connections_max_idle_ms * _NS_PER_MS
        next_ns = idle_ns
        longest = itertools.islice(self._connections, IDLE_PER_TURN)
        for connection in list(itertools.takewhile(lambda c: now_ns - c.active_ns >= idle_ns, longest)):
            connection.active_ns = now_ns
            self._connections.move_to_end(connection)
            if not connection.is_waiting_for_broker:
                logger.debug("Closing %s: idle for %d ms", connection.context, self.limits.connections_max_idle_ms)
                connection.counters.connections_expired += 1
                connection.abort()
        oldest = next(iter(self._connections), None)
        if oldest is not None:
            next_ns = oldest.active_ns + idle_ns - now_ns
        self._schedule_idle_check(loop, next_ns / _NS_PER_MS)

    # -- strangers

    def _schedule_look(self, loop: asyncio.AbstractEventLoop, delay_ms: int) -> None:
        self._look_timer = loop.call_later(delay_ms / 1000, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at a slice of the connections, and begin again after LOOK_MS."""
        if next(self._looking, self) is None:
            self._schedule_look(loop, 0)
            return
        if any(acceptor.is_waiting for acceptor in self._acceptors):
            self._make_room()
        self._looking = self.strangers.look(list(self._connections), self.limits, is_pressed=self.admission.waiting > 0)
        self._schedule_look(loop, LOOK_MS)

    def _make_room(self) -> None:
        """Give connections up for clients that wait for one, if there are any that no client needs."""
        given_up = sum(acceptor.give_up(ACCEPTS_AT_ONCE) for acceptor in self._acceptors)
        count = ACCEPTS_AT_ONCE - min(given_up, ACCEPTS_AT_ONCE)
        if self._taken >= min(self._limits.max_connections, self._limits.descriptors_max):  # not only for want of handshakes
            self.strangers.give_up(count)
            return
        for name in {acceptor.name for acceptor in self._acceptors if acceptor.is_waiting}:
            if self._room_of(name) <= 0:
                self.strangers.give_up(count, name)

    # -- accepting

    def _room(self, listener: Listener) -> int:
        """Return how many more connections may be taken at the listener."""
        limits, taken = self._limits, self._taken
        room = limits.descriptors_max - taken
        if not listener.is_protected:
            room = min(room, limits.max_connections - taken)
        if limits.of_listeners:
            room = min(room, self._room_of(listener.name))
        handshakes = self.handshakes.get(listener.name)
        return room if handshakes is None else min(room, handshakes.room)

    def _room_of(self, name: str) -> int:
        """Return how many more connections a listener's own limit allows."""
        own = self._limits.of_listeners.get(name)
        if own is None:
            return UNLIMITED
        arriving = sum(acceptor.arriving for acceptor in self._acceptors if acceptor.name == name)
        return own.max_connections - self.listener_counters[name].connections_open - arriving

    def _pause_ms(self, listener: Listener) -> int:
        """Count an accepted connection, and return for how long the listener accepts no other."""
        limits = self._limits
        if limits.max_connection_creation_rate >= UNLIMITED and not limits.of_listeners:
            return 0
        if self._rates is None:
            from pybroker.network.connection_rates import ConnectionRates  # noqa: PLC0415  only with a limit

            self._rates = ConnectionRates()
        return self._rates.accepted(listener, limits, now_ms=self.now_ns() / _NS_PER_MS)

    @property
    def _taken(self) -> int:
        """The number of connections, with those that are being set up."""
        taken = len(self._connections)
        for acceptor in self._acceptors:
            taken += acceptor.arriving
        return taken

    def _close_acceptors(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()

    def _let_in(self) -> None:
        if self._all_lost is None:
            for acceptor in self._acceptors:
                if not acceptor.is_watched:
                    acceptor.resume()

    def _factory(self, loop: asyncio.AbstractEventLoop, listener: Listener, listening: socket.socket) -> Callable[[], Connection]:
        name, protocol = listener.name, listener.security_protocol
        counters, gate = self.listener_counters[name], self.gates.get(name)
        host, port = _address(listening.getsockname())
        if host in _EVERY_ADDRESS:
            host, port = "", 0  # each connection has its own

        def connection() -> Connection:
            context = ConnectionContext(
                connection_id=0, listener_name=name, local_host=host, local_port=port, security_protocol=protocol
            )
            if gate is not None:
                context.login = gate.new_login()
            return Connection(loop, self, context, counters)

        return connection

    def _handshakes_of(self, listener: Listener) -> Handshakes | None:
        """Return what sets up the connections of a listener with TLS; None for a listener without."""
        if listener.tls is None:
            return None
        from pybroker.network.handshakes import Handshakes  # noqa: PLC0415  a broker without TLS does not pay for it
        from pybroker.security.failures import FailureLog  # noqa: PLC0415  as above

        failures = FailureLog(lambda: self.now_ns() // 1_000_000)
        handshakes = self.handshakes[listener.name] = Handshakes(
            listener.name, listener.tls, pool=self.memory_pool, left_of=self._left_of, failures=failures
        )
        return handshakes

    def _left_of(self, peer_host: str) -> int:
        """Return how many more connections a host may have."""
        return self._per_ip_max(peer_host) - self._per_ip.get(peer_host, 0)

    def _per_ip_max(self, peer_host: str) -> int:
        return self.limits.max_connections_per_ip_overrides.get(peer_host, self.limits.max_connections_per_ip)

    def _refusal(self, context: ConnectionContext) -> str | None:
        if self._all_lost is not None:  # the loop had accepted it when `stop` began
            return "stopping"
        host, limits = context.peer_host, self._limits
        is_limited = limits.max_connections_per_ip < UNLIMITED or limits.max_connections_per_ip_overrides
        if is_limited and self._left_of(host) <= 0:
            return f"max.connections.per.ip ({self._per_ip_max(host)}) reached"
        if not self._may_connect(host):
            return "connection_creation_rate reached"
        return None


def _address(name: object) -> tuple[str, int]:
    """Return the host and port of a socket name; an IPv4 peer of a dual-stack socket is shown as IPv4."""
    if not isinstance(name, tuple):  # the peer is gone already
        return "", 0
    return str(name[0]).removeprefix("::ffff:"), int(name[1])
