"""The gate of a SASL listener: it takes the requests of a connection until the client has logged in.

Behaviour
    A request that does not fit the login's state ends the connection. All others go the way of every request, to the handlers of
    ApiVersions, SaslHandshake and SaslAuthenticate. After SaslHandshake v0, tokens come and go without requests around them.
    When the login is complete, the connection has the server's handler, and nothing of this is in its way. Only a login that ends
    at some time leaves the gate in front: a request after that end closes the connection, except a SaslHandshake.
    The response to a failure comes `connection.failed.authentication.delay.ms` later, and then the end of the connection.
Source: SaslServerAuthenticator, Processor.processCompletedReceives, KafkaChannel.maybeBeginServerReauthentication.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from pybroker.network.context import Outgoing, ProtocolViolation
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.sasl.login import COMPLETE, FAILED, TOKENS, Login, Offer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.clock import Clock
    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler
    from pybroker.network.gate import Guarded
    from pybroker.security.failures import FailureLog

LINGER_S: Final = 0.1
"""How long a connection is open after the response to a failure. Some clients do not read a response whose end is there, too."""
_NOTHING: Final = b""
_PREFIX_BYTES: Final = 4
_KEY_BYTES: Final = 2
_KEYS: Final = frozenset(ApiKey)


class Gate:
    """The gate of one listener.

    Attributes:
        request_bytes_max: the bound on a request before the login.
        completed, failed: the number of logins, and of those that failed.
        expired: the number of connections that were closed because their logins had ended.
    """

    __slots__ = (
        "_clock",
        "_delay_ms",
        "_failures",
        "_handler",
        "_offer",
        "completed",
        "expired",
        "failed",
        "request_bytes_max",
    )

    def __init__(
        self,
        offer: Offer,
        handler: RequestHandler,
        failures: FailureLog,
        *,
        request_bytes_max: int,
        delay_ms: Callable[[], int],
        clock: Clock,
    ) -> None:
        """Let clients in to `handler`; `delay_ms` returns the delay of a failure."""
        self._offer, self._handler, self._failures, self._delay_ms = offer, handler, failures, delay_ms
        self._clock = clock
        self.request_bytes_max = request_bytes_max
        self.completed = self.failed = self.expired = 0

    def new_login(self) -> Login:
        """Return the login of a new connection."""
        return Login(self._offer, on_again=self._guard, clock=self._clock)

    def handle(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle a request; the frame is borrowed until the return. Raises ProtocolViolation."""
        login = context.login
        assert login is not None, "the listener has a gate"
        response: EncodedResponse | asyncio.Future[EncodedResponse]
        if login.state == COMPLETE:
            return self._after(context, login, frame)
        if login.state == TOKENS and login.is_bare:
            response = self._bare(login, frame)
        else:
            key = int.from_bytes(frame[:_KEY_BYTES], signed=True)
            if login.fits(key):
                response = self._handler(context, frame)
                if login.state < COMPLETE and not login.failure:
                    return response
            else:
                name = ApiKey(key).name if key in _KEYS else f"(API key {key})"
                login.fail(f"a {name} request must not come at this point of a login")
                response = None
        return self._checked(context, login, response)

    def _after(
        self, context: ConnectionContext, login: Login, frame: memoryview
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle a request of a client that has logged in."""
        if login.is_expired() and int.from_bytes(frame[:_KEY_BYTES], signed=True) != ApiKey.SASL_HANDSHAKE:
            self.expired += 1
            raise ProtocolViolation(f"the login of {login.principal} has ended, and the client has not logged in again")
        response = self._handler(context, frame)
        return response if login.state == COMPLETE else self._checked(context, login, response)

    def _bare(self, login: Login, frame: memoryview) -> EncodedResponse:
        """Take a token without a request around it; the response is one, too, or none at a failure."""
        outcome = login.take(frame.tobytes())
        if outcome.error_code != ErrorCode.NONE:
            return None
        return len(outcome.token).to_bytes(_PREFIX_BYTES) + outcome.token

    def _checked(
        self, context: ConnectionContext, login: Login, response: EncodedResponse | asyncio.Future[EncodedResponse]
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Let the client in if the login is complete now; end the connection if it has failed."""
        if login.state == COMPLETE:
            self._let_in(context, login)
        if login.failure and not login.is_failure_noted:  # a client that must send one more token may be gone before it does
            login.is_failure_noted = True
            self.failed += 1
            named = f" as {login.given_user[:100]!r}" if login.given_user else ""
            self._failures.add(context.peer_host, f"Closing {context}, whose login{named} failed: {login.failure}")
        return self._end(context, response) if login.state == FAILED else response

    def _let_in(self, context: ConnectionContext, login: Login) -> None:
        self.completed += 1
        context.principal = login.principal
        if (holder := _holder(context)) is not None:
            holder.admit(self.handle if login.expires_ms else None)

    def _guard(self, context: ConnectionContext) -> None:
        """Take the requests of a client that logs in again."""
        if (holder := _holder(context)) is not None:
            holder.serve_by(self.handle, self.request_bytes_max)

    def _end(
        self, context: ConnectionContext, response: EncodedResponse | asyncio.Future[EncodedResponse]
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Return what the client gets after the delay: its response, or the end of the connection if there is none."""
        loop = asyncio.get_running_loop()
        later: asyncio.Future[EncodedResponse] = loop.create_future()
        delay_s = self._delay_ms() / 1000
        timer = loop.call_later(delay_s, _resolve, later, response if isinstance(response, bytes) else _NOTHING)
        later.add_done_callback(lambda _: timer.cancel())
        loop.call_later(delay_s + LINGER_S, _close, context)
        return later


def _resolve(later: asyncio.Future[EncodedResponse], response: bytes) -> None:
    if not later.done():
        later.set_result(response or Outgoing([], 0, close_after=True))


def _close(context: ConnectionContext) -> None:
    if (holder := _holder(context)) is not None:
        holder.end()


def _holder(context: ConnectionContext) -> Guarded | None:
    """Return the connection; None if it is gone."""
    return cast("Guarded | None", context.holder)
