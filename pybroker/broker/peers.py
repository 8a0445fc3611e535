"""Connections to the other brokers of the cluster: requests in their order, and the response to each, or none.

A connection is opened when it is first needed, at the address that the broker has registered for `inter.broker.listener.name`. It
ends when a response is late, cannot be read, or the broker has registered again; the requests that wait on it get no response.
After a failure, no connection of the lane is opened for a pause that grows up to a second. The requests fail at the end of the
pause, so that no caller needs a pause of its own.

Where the listener wants a login, requests wait for it. When it has to be renewed (KIP-368), those that were sent have their
responses first, and those that come wait again.

Source: NetworkClient, BrokerBlockingSender.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pybroker import __version__
from pybroker.broker.registration import inter_broker_listener
from pybroker.client.requests import common_version, request_parts
from pybroker.network.client import ClientConnection
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import DecodeError, EncodeError, decode_response, response_class
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.schema import schema_of
from pybroker.replication.peers import REQUEST_MS_MAX
from pybroker.security.sasl.exchange import SaslError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.metadata.members import BrokerRegistration, Endpoint
    from pybroker.model import BrokerId
    from pybroker.security.sasl.client_login import ClientLogin, Requests
    from pybroker.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)

CONNECT_S: Final = 5.0
PAUSE_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0)
"""The pauses after failed attempts in a row; the last one holds from then on."""
API_VERSIONS_VERSION: Final = 3
SESSION_PART: Final = 0.85
"""The part of a login's time after which it is renewed, as in Kafka's clients."""
SESSION_S_MIN: Final = 1.0
"""The time before which a broker takes another login for a mistake."""

Done = Callable[[Any | None], object]


class _Waiting(NamedTuple):
    """A request without a response. `late` ends its connection."""

    request: Any
    done: Done
    late: asyncio.TimerHandle


class _Sent(NamedTuple):
    """A request that was sent, and what its response is."""

    waiting: _Waiting
    correlation_id: int
    cls: type[Any]
    version: int


class BrokerPeers:
    """The other brokers. `brokers` returns those that are live. Belongs to the loop."""

    def __init__(
        self,
        brokers: Callable[[], Mapping[BrokerId, BrokerRegistration]],
        listener: str,
        client_id: str,
        receive_buffer_bytes: int = -1,
        *,
        tls: ListenerTls | None = None,
        login: ClientLogin | None = None,
    ) -> None:
        """Connect to `listener` of each broker, with `tls` and `login` if any; `receive_buffer_bytes` of -1 leaves it to the
        system.
        """
        self._brokers, self._listener, self._client_id = brokers, listener, client_id
        self.receive_buffer_bytes, self._tls, self.login = receive_buffer_bytes, tls, login
        self._lanes: dict[tuple[BrokerId, str], _Lane] = {}
        self._failures: dict[BrokerId, int] = {}
        self._is_closed = False

    @classmethod
    def of(cls, controller: Controller, tls: ListenerTls | None, login: ClientLogin | None) -> Self:
        """Return the other brokers of the cluster that a controller has. `tls` and `login` are those of the listener for brokers,
        if any.
        """
        config = controller.static_config
        peers = cls(
            lambda: controller.image.brokers,
            inter_broker_listener(config),
            f"broker-{config.node_id}",
            config.replica_socket_receive_buffer_bytes,
            tls=tls,
            login=login,
        )
        controller.subscribe(peers.follow)
        return peers

    def send(
        self,
        broker_id: BrokerId,
        request: Any,
        done: Done,
        *,
        lane: str = "",
        timeout_ms: int = REQUEST_MS_MAX,
    ) -> None:
        """Send a request, as `Peers` describes."""
        broker = self._brokers().get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if broker is None or endpoint is None or self._is_closed:
            asyncio.get_running_loop().call_later(PAUSE_S[0], done, None)
            return
        found = self._lanes.get((broker_id, lane))
        if found is not None and (found.epoch, found.endpoint) != (broker.epoch, endpoint):
            found.close("the broker has registered again", is_expected=True)
            found = None
        if found is None or found.may_follow:
            found = self._lanes[broker_id, lane] = _Lane(self, broker, endpoint)
        found.send(request, done, timeout_ms)

    def follow(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """End the connections to lives of brokers that are over: a machine that lost its power never ends them."""
        if delta.brokers_changed:
            for key, lane in tuple(self._lanes.items()):
                broker = new.brokers.get(key[0])
                if broker is None or broker.epoch != lane.epoch:
                    del self._lanes[key]
                    lane.close("the broker is not live any more", is_expected=True)

    def close(self) -> None:
        """End all connections; what waits gets no response."""
        self._is_closed = True
        for lane in tuple(self._lanes.values()):
            lane.close("this broker stops", is_expected=True)

    def tls_to(self, host: str) -> dict[str, Any]:
        """Return the arguments of a connection with TLS to a host, whose certificate must have that name; none without TLS."""
        return {} if self._tls is None else {"ssl": self._tls.client_context, "server_hostname": host}

    @property
    def client_id(self) -> str:
        """The name by which the other brokers know this one."""
        return self._client_id

    def unresolved(self, broker_id: BrokerId, error: Exception) -> str:
        """Return why a broker cannot be reached whose host has no address here, and what to do."""
        return (
            f"the host has no address here ({error}). Broker {broker_id} advertises it for its listener {self._listener}: set "
            f"advertised.listeners of broker {broker_id} to an address that all brokers can resolve"
        )

    def failed(self, broker_id: BrokerId, endpoint: Endpoint, reason: str, level: int) -> float:
        """Note that a broker cannot be reached, the first time with a line of this level. Returns for how many seconds it should
        not be tried again.
        """
        count = self._failures[broker_id] = self._failures.get(broker_id, 0) + 1
        level = level if count == 1 else logging.DEBUG
        line = "Broker %d at %s:%d cannot be reached now, which is tried again: %s"
        logger.log(level, line, broker_id, *endpoint, reason)
        return PAUSE_S[min(count, len(PAUSE_S)) - 1]

    def reached(self, broker_id: BrokerId, endpoint: Endpoint) -> None:
        """Note that a broker responds."""
        if self._failures.pop(broker_id, 0):
            logger.info("Broker %d at %s:%d can be reached again", broker_id, *endpoint)


class _Lane:
    """One connection, from its first request to its end."""

    def __init__(self, peers: BrokerPeers, broker: BrokerRegistration, endpoint: Endpoint) -> None:
        self._peers, self._broker_id = peers, broker.broker_id
        self.epoch, self.endpoint = broker.epoch, endpoint
        self._is_over = False
        self._next_s = 0.0  # once it is over: when another connection may be opened
        self._loop = asyncio.get_running_loop()
        self._connection = ClientConnection(self._received, self.close)
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._may_send = False  # once the broker has responded to ApiVersions, and between logins
        self._log_in_s = math.inf if peers.login is None else 0.0  # when the next login is due
        self._sent: deque[_Sent] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._unsupported: set[int] = set()  # the APIs of which a line is in the log
        self._opening = self._loop.create_task(self._open())

    @property
    def may_follow(self) -> bool:
        """Whether another connection may be opened in the place of this one."""
        return self._is_over and self._loop.time() >= self._next_s

    def send(self, request: Any, done: Done, timeout_ms: int) -> None:
        """Send a request when its turn has come."""
        if self._is_over:
            self._loop.call_at(self._next_s, done, None)
            return
        late = self._loop.call_later(timeout_ms / 1000, self.close, "no response in time")
        self._waiting.append(_Waiting(request, done, late))
        self._send_waiting()

    def _send_waiting(self) -> None:
        """Send what waits, unless a login has to come first."""
        if not self._may_send:
            return
        if self._loop.time() < self._log_in_s:
            while self._waiting:
                self._send_known(self._waiting.popleft())
        elif not self._sent and self._peers.login is not None:
            self._may_send = False
            self._log_in(self._peers.login, self._peers.login.requests())

    def _log_in(self, login: ClientLogin, requests: Requests, response: Any | None = None) -> None:
        """Send the next request of a login, with the response to the one before, until the login is complete."""

        def done(response: Any | None) -> None:
            if response is None:
                self.close("it does not let others log in")
            else:
                self._log_in(login, requests, response)

        try:
            request = requests.send(response)
        except StopIteration as end:
            self._may_send = True
            session_s = end.value / 1000
            self._log_in_s = self._loop.time() + max(session_s * SESSION_PART, SESSION_S_MIN) if session_s else math.inf
        except SaslError as error:
            self.close(f"the login as {login.user!r} by {login.mechanism} failed: {error}")
        else:
            late = self._loop.call_later(CONNECT_S, self.close, "no response in time")
            self._send_known(_Waiting(request, done, late))

    def _send_known(self, waiting: _Waiting) -> None:
        """Send a request to a broker whose versions are known."""
        api_key = schema_of(type(waiting.request)).api_key
        assert api_key is not None
        version = common_version(api_key, self._versions)
        if version is None:
            level = logging.DEBUG if api_key in self._unsupported else logging.WARNING
            self._unsupported.add(api_key)
            name = ApiKey(api_key).name
            logger.log(level, "Broker %d supports no version of %s that this one supports", self._broker_id, name)
            self._refuse(waiting)
            return
        try:
            self._send(waiting, version)
        except EncodeError:
            logger.exception("A request to broker %d cannot be encoded, which is a bug", self._broker_id)
            self._refuse(waiting)

    def _refuse(self, waiting: _Waiting) -> None:
        waiting.late.cancel()
        self._loop.call_later(PAUSE_S[-1], waiting.done, None)

    def close(self, reason: str, *, is_expected: bool = False, level: int = logging.WARNING) -> None:
        """End the connection; what waits gets no response. An end that is not expected has a pause after it, and a line of this
        level. Idempotent.
        """
        if self._is_over:
            return
        self._is_over = True
        is_idle = self._may_send and not self._sent  # as after `connections.max.idle.ms`
        pause_s = 0.0 if is_idle or is_expected else self._peers.failed(self._broker_id, self.endpoint, reason, level)
        self._next_s = self._loop.time() + pause_s
        self._opening.cancel()
        self._connection.close(reason)
        for one in (*(sent.waiting for sent in self._sent), *self._waiting):
            one.late.cancel()
            self._loop.call_at(self._next_s, one.done, None)
        self._sent.clear()
        self._waiting.clear()

    async def _open(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, _ = await self._loop.create_connection(
                    lambda: self._connection, self.endpoint.host, self.endpoint.port, **self._peers.tls_to(self.endpoint.host)
                )
        except (socket.gaierror, UnicodeError) as error:  # UnicodeError: the host is no name
            self.close(self._peers.unresolved(self._broker_id, error), level=logging.ERROR)
            return
        except ssl.SSLError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
            self.close(f"the TLS handshake failed: {reason}")
            return
        except OSError as error:
            self.close(os.strerror(error.errno) if error.errno else str(error) or "no connection in time")
            return
        if self._peers.receive_buffer_bytes > 0:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._peers.receive_buffer_bytes)
        request = ApiVersionsRequest(client_software_name=self._peers.client_id, client_software_version=__version__)
        late = self._loop.call_later(CONNECT_S, self.close, "no response in time")
        self._send(_Waiting(request, self._asked, late), API_VERSIONS_VERSION)

    def _asked(self, response: Any | None) -> None:
        if response is None:
            return
        if response.error_code != ErrorCode.NONE:
            self.close(f"ApiVersions has the error code {response.error_code}")
            return
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        self._may_send = True

    def _send(self, waiting: _Waiting, version: int) -> None:
        """Send a request in a version. Raises EncodeError."""
        api_key = schema_of(type(waiting.request)).api_key
        assert api_key is not None
        self._correlation_id += 1
        client_id = self._peers.client_id
        parts = request_parts(waiting.request, version, correlation_id=self._correlation_id, client_id=client_id)
        self._sent.append(_Sent(waiting, self._correlation_id, response_class(api_key), version))
        self._connection.send(parts)

    def _received(self, frame: memoryview) -> None:
        if not self._sent:
            self.close("a response came for which there is no request")
            return
        sent = self._sent[0]
        try:
            correlation_id, response = decode_response(sent.cls, sent.version, frame)
        except DecodeError as error:
            self.close(f"a response cannot be read: {error}")
            return
        if correlation_id != sent.correlation_id:
            self.close(f"it responded to request {correlation_id} in place of {sent.correlation_id}")
            return
        self._sent.popleft()
        sent.waiting.late.cancel()
        if self._may_send:  # not for ApiVersions alone, which a broker whose other responses fail may send well
            self._peers.reached(self._broker_id, self.endpoint)
        sent.waiting.done(response)
        if self._waiting:
            self._send_waiting()
