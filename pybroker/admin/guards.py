"""Refuses requests before anything is done: those without the token, and those that a page of another site has a browser send.

A browser sends a request to whatever address a page names. It does not let the page read the response, but a verb would be
carried out. So a request with an Origin must come from a page of this listener itself, and a body must be JSON, which a form
cannot send. A name that another site's owner lets point to this machine (DNS rebinding) makes its page one of the same origin;
it shows in the Host, which must be an address or localhost. A listener for other machines has a token, which no page knows.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from pybroker.admin.calls import FORBIDDEN, AdminError
from pybroker.config.http_listeners import LOCALHOST, SCHEME, SECURE_SCHEME, is_loopback
from pybroker.http_server import CHALLENGE, UNAUTHORIZED, carries
from pybroker.security.acl.authorizer import OPERATOR

if TYPE_CHECKING:
    from pybroker.admin.logins import Logins
    from pybroker.http_server import Request

BODY_TOO_LONG: Final = 413
BODY_NOT_JSON: Final = 415
JSON_TYPE: Final = "application/json"
BODY_BYTES_MAX: Final = 1 << 20


class Guards:
    """The rules that each request to a listener must keep."""

    def __init__(self, host: str, token: str | None, logins: Logins | None = None, *, is_tls: bool = False) -> None:
        """`host` is where the listener listens; `logins` are the users of a broker whose clients log in."""
        self._token, self._logins, self._scheme = token, logins, SECURE_SCHEME if is_tls else SCHEME
        self._is_local = is_loopback(host)

    def check(self, request: Request) -> None:
        """Raise AdminError for a request that is refused, whoever it comes from."""
        host = request.headers.get("Host", "")
        if self._is_local and not _is_address(host):
            raise AdminError(FORBIDDEN, f"Host: {host}: it must be the address of the listener, or {LOCALHOST}")
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() != f"{self._scheme}{host.lower()}":
            raise AdminError(FORBIDDEN, f"Origin: {origin}: a page of another site must not send requests to the listener")
        if request.body is None:
            raise AdminError(BODY_TOO_LONG, f"The body is longer than {BODY_BYTES_MAX} bytes; a producer writes longer records")
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if request.body and kind != JSON_TYPE:
            raise AdminError(BODY_NOT_JSON, f"Content-Type: {kind}: the body must be {JSON_TYPE}")

    @property
    def has_logins(self) -> bool:
        """Whether the clients of the broker log in."""
        return self._logins is not None

    def principal_of(self, request: Request) -> str:
        """Return the principal of a request. Raises AdminError for one that has to prove it, and does not."""
        if self._logins is None:
            if carries(request.headers, self._token):
                return OPERATOR
            text = "The request needs the token of pybroker.admin.token, as Authorization: Bearer TOKEN"
            raise AdminError(UNAUTHORIZED, text, CHALLENGE)
        if self._token is not None and carries(request.headers, self._token):
            return OPERATOR
        principal = self._logins.principal_of(request.headers.get("Authorization", ""))
        if principal is None:
            text = "The request needs a user of the broker, as Authorization: Basic, or the token of pybroker.admin.token"
            raise AdminError(UNAUTHORIZED, text, CHALLENGE)
        return principal


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
