"""The users of the page, where clients of the broker log in: each has the password that it has as a client.

The principal of a request decides what its verbs may do: their requests to the broker are checked by the same ACLs as those of a
client. Whoever has the token of the listener is the operator, and may do everything.

Each request of a page brings the password again (RFC 7617). A login is remembered for some seconds, because SCRAM takes
milliseconds for each.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Final

from pybroker.security.principal import user as principal_of_user
from pybroker.security.sasl.client_login import BY_PASSWORD, tokens_of
from pybroker.security.sasl.exchange import SaslError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.security.sasl.exchange import Mechanism
    from pybroker.security.sasl.login import Offer

BASIC: Final = "basic"
KEPT_S: Final = 10.0
KEPT_MAX: Final = 1_000


class Logins:
    """The users of the broker's listeners. It is used from one thread, which is not the broker's."""

    def __init__(self, offers: Iterable[Offer]) -> None:
        """`offers` are those of the listeners; a user of any of them may log in, by a mechanism with passwords."""
        self._mechanisms: list[tuple[str, Mechanism]] = [
            (name, mechanism) for offer in offers for name, mechanism in offer.mechanisms.items() if name in BY_PASSWORD
        ]
        self._key = secrets.token_bytes(32)
        self._kept: dict[bytes, tuple[str, float]] = {}

    def principal_of(self, authorization: str) -> str | None:
        """Return the principal of a request by its header; None if it has not proved any."""
        kind, _, given = authorization.strip().partition(" ")
        if kind.lower() != BASIC:
            return None
        try:
            user, separator, password = base64.b64decode(given.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        if not separator or not user or not password:
            return None
        mark = hmac.digest(self._key, f"{user}:{password}".encode(), hashlib.sha256)
        principal, until_s = self._kept.get(mark, ("", 0.0))
        if time.monotonic() < until_s:
            return principal
        name = self._proved(user, password)
        if name is None:
            return None
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        principal = principal_of_user(name)
        self._kept[mark] = principal, time.monotonic() + KEPT_S
        return principal

    def _proved(self, user: str, password: str) -> str | None:
        """Return the name of the user, if any mechanism takes the password."""
        for name, mechanism in self._mechanisms:
            exchange, tokens = mechanism.begin(), tokens_of(name, user, password)
            try:
                token = next(tokens)
                while True:
                    token = tokens.send(exchange.respond(token))
            except StopIteration:
                if exchange.identity is not None:
                    return exchange.identity.name
            except SaslError:
                continue
        return None
