"""Refuses requests before anything is done: those without the token, and those that a page of another site has a browser send.

A browser sends a request to whatever address a page names. It does not let the page read the response, but a verb would be
carried out. So a request with an Origin must come from a page of this listener itself, and a body must be JSON, which a form
cannot send. A name that another site's owner lets point to this machine (DNS rebinding) makes its page one of the same origin;
it shows in the Host, which must be an address or localhost. A listener for other machines has a token, which no page knows.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.admin.calls import AdminError
from pybroker.config.admin import LOCALHOST, SCHEME, is_loopback

if TYPE_CHECKING:
    from pybroker.http_server import Request

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
BODY_TOO_LONG: Final = 413
BODY_NOT_JSON: Final = 415
JSON_TYPE: Final = "application/json"
BEARER: Final = "bearer"
BODY_BYTES_MAX: Final = 1 << 20


class Guards:
    """The rules that each request to a listener must keep."""

    def __init__(self, host: str, token: str | None) -> None:
        """`host` is where the listener listens."""
        self._token = None if token is None else token.encode()
        self._is_local = is_loopback(host)

    def check(self, request: Request) -> None:
        """Raise AdminError for a request that is refused."""
        self._check_token(request.headers)
        host = request.headers.get("Host", "")
        if self._is_local and not _is_address(host):
            raise AdminError(FORBIDDEN, f"Host: {host}: it must be the address of the listener, or {LOCALHOST}")
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() != f"{SCHEME}{host.lower()}":
            raise AdminError(FORBIDDEN, f"Origin: {origin}: a page of another site must not send requests to the listener")
        if request.body is None:
            raise AdminError(BODY_TOO_LONG, f"The body is longer than {BODY_BYTES_MAX} bytes")
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if request.body and kind != JSON_TYPE:
            raise AdminError(BODY_NOT_JSON, f"Content-Type: {kind}: the body must be {JSON_TYPE}")

    def _check_token(self, headers: Mapping[str, str]) -> None:
        if self._token is None:
            return
        kind, _, given = headers.get("Authorization", "").strip().partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token)
        if kind.lower() != BEARER or not is_right:
            text = "The request needs the token of pybroker.admin.token, as Authorization: Bearer TOKEN"
            raise AdminError(UNAUTHORIZED, text, (("WWW-Authenticate", "Bearer"),))


def _is_address(host: str) -> bool:
    """Return whether the value of a Host header is an address, and no name but localhost; with a port or without."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
    if name.lower() == LOCALHOST:
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
