"""The login of one connection, from the choice of the mechanism on: which request fits now, and what a login ends with.

    HANDSHAKE      SaslHandshake, or ApiVersions
    TOKENS         SaslAuthenticate, or bare tokens after SaslHandshake v0
    COMPLETE       everything; SaslHandshake begins another login, to stay for longer (KIP-368)
    FAILED         nothing

A login that fails ends the connection. Another login of a connection must be by the same mechanism and of the same user.

Source: SaslServerAuthenticator; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.principal import user
from pybroker.security.sasl.exchange import ChallengeError, RefusedError, SaslError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.clock import Clock
    from pybroker.security.sasl.exchange import Exchange, Identity, Mechanism

AGAIN_MS_MIN: Final = 1_000
"""The time between two logins of a connection. Kafka takes a SaslHandshake that comes sooner for a mistake."""


class State(IntEnum):
    """How far a login is."""

    HANDSHAKE = 0
    TOKENS = 1
    COMPLETE = 2
    FAILED = 3


HANDSHAKE, TOKENS, COMPLETE, FAILED = State
"""The states by names of their own, as Python searches the attributes of an enum for a microsecond."""
_NONE: Final = ErrorCode.NONE
_FITTING: Final[tuple[frozenset[int], ...]] = (
    frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    frozenset({ApiKey.SASL_AUTHENTICATE}),
    frozenset(),
    frozenset(),
)
"""The requests that fit each state."""


class Offer(NamedTuple):
    """The mechanisms of a listener by name, and for how long a login by each is valid, in ms; 0: without end."""

    mechanisms: Mapping[str, Mechanism]
    session_ms_max: Mapping[str, int]


class Outcome(NamedTuple):
    """The result of a token: an error code with the message for the client, or the server's token."""

    error_code: ErrorCode
    message: str | None
    token: bytes
    session_ms: int = 0


class Login:
    """The login of one connection.

    Attributes:
        state: how far it is.
        is_by_token: whether the client has proved its identity by a delegation token.
        is_bare: whether the tokens come without requests around them.
        failure: why it fails, for the log; empty before. Known before FAILED where the client has a token to send.
        is_failure_noted: whether the failure has its line in the log.
        principal: the identity of the client; empty before a login is complete.
        expires_ms: when the login ends, in monotonic ms; 0: never.
    """

    __slots__ = (
        "_again_ms", "_clock", "_exchange", "_offer", "_on_again", "expires_ms", "failure", "is_bare", "is_by_token",
        "is_failure_noted", "mechanism", "principal", "refused", "state",
    )  # fmt: skip

    def __init__(self, offer: Offer, *, on_again: Callable[[Any], None], clock: Clock) -> None:
        """Begin. `on_again` is called with the connection that logs in again."""
        self._offer, self._on_again, self._clock = offer, on_again, clock
        self.state = HANDSHAKE
        self.is_bare = self.is_by_token = self.is_failure_noted = False
        self.failure = self.principal = self.mechanism = ""
        self.refused = ""  # the message to the client whose next token fails, whatever it is
        self.expires_ms = self._again_ms = 0
        self._exchange: Exchange | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that the listener offers."""
        return list(self._offer.mechanisms)

    @property
    def given_user(self) -> str:
        """The user that the client has named, for the log; empty before."""
        return "" if self._exchange is None else self._exchange.user

    @property
    def is_again(self) -> bool:
        """Whether the connection has logged in before."""
        return self.principal != ""

    def fits(self, api_key: int) -> bool:
        """Return whether a request fits the state."""
        return api_key in _FITTING[self.state]

    def fail(self, reason: str) -> None:
        """End the login, and with it the connection."""
        self.state, self.failure = FAILED, self.failure or reason

    def begin_again(self, connection: Any) -> bool:
        """Begin another login of a connection that has logged in. Returns whether it may."""
        now_ms = self._clock.monotonic_ms()
        if self.state != COMPLETE or now_ms < self._again_ms:
            return False
        self._again_ms = now_ms + AGAIN_MS_MIN
        self.state, self.refused = HANDSHAKE, ""
        self._on_again(connection)
        return True

    def choose(self, mechanism: str, *, is_bare: bool) -> ErrorCode:
        """Begin a login by a mechanism, and return the error code for the client."""
        chosen = self._offer.mechanisms.get(mechanism)
        if chosen is None:
            self.fail(f"the client asks for the mechanism {mechanism[:50]!r}, and there are {', '.join(self._offer.mechanisms)}")
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self.is_again and mechanism != self.mechanism:
            self.refused = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{self.mechanism}'"
            )
        else:
            self.mechanism = mechanism
        self._exchange, self.is_bare, self.state = chosen.begin(), is_bare, TOKENS
        return _NONE

    def take(self, token: bytes) -> Outcome:
        """Take the client's next token."""
        exchange = self._exchange
        assert exchange is not None, "a mechanism was chosen"
        try:
            if self.refused:
                raise RefusedError(self.refused)
            response = exchange.respond(token)
            if exchange.identity is None:
                return Outcome(_NONE, None, response)
            session_ms = self._complete(exchange.identity)
        except ChallengeError as error:
            self.refused, self.failure = str(error), error.reason
            return Outcome(_NONE, None, str(error).encode())
        except RefusedError as error:
            self.fail(str(error))
            return Outcome(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error), b"")
        except SaslError as error:
            self.fail(str(error))
            what = "re-authentication" if self.is_again else "authentication"
            message = f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self.mechanism}"
            return Outcome(ErrorCode.SASL_AUTHENTICATION_FAILED, message, b"")
        return Outcome(_NONE, None, response, session_ms)

    def is_expired(self) -> bool:
        """Return whether the login that was complete has ended."""
        return self.expires_ms != 0 and self._clock.monotonic_ms() >= self.expires_ms

    def _complete(self, identity: Identity) -> int:
        """Take over the identity of the client. Returns how long the login is valid, in ms; 0: without end. Raises SaslError."""
        principal = user(identity.name)
        if self.is_again and principal != self.principal:
            kept, new = self.principal.replace(":", ".", 1), principal.replace(":", ".", 1)
            raise RefusedError(f"Cannot change principals during re-authentication from {kept}: {new}")
        bounds = [bound] if (bound := self._offer.session_ms_max.get(self.mechanism, 0)) else []
        if identity.expires_ms is not None:
            bounds.append(max(identity.expires_ms - self._clock.time_ms(), 0))  # 0: expired, within the skew of the clocks
        self.principal, self.is_by_token, self.state = principal, identity.is_token, COMPLETE
        self.expires_ms = self._clock.monotonic_ms() + min(bounds) if bounds else 0
        return min(bounds, default=0)
