"""A client of the API: one request over a connection of its own, and the response."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pybroker.config.http_listeners import ADMIN_NAME, SCHEME, SECURE_SCHEME

if TYPE_CHECKING:
    from ssl import SSLContext

    from pybroker.config.broker import BrokerConfig


class ApiError(RuntimeError):
    """A request that the broker refuses. The text is its sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def is_secure(url: str) -> bool:
    """Return whether an API is reached by TLS."""
    return url.lower().startswith(SECURE_SCHEME)


class Access(NamedTuple):
    """A client's right to the API of a broker: its token, and a TLS that trusts the broker's certificate."""

    token: str | None = None
    context: SSLContext | None = None


def access_of(config: BrokerConfig, *, is_tls: bool) -> Access:
    """Return the access that the settings of the broker itself give, with its trust store. Raises ConfigError."""
    if not is_tls:
        return Access(config.pybroker_admin_token)
    from pybroker.security.tls.contexts import client_context  # noqa: PLC0415  only for https://
    from pybroker.security.tls.settings import settings_of_listener  # noqa: PLC0415

    return Access(config.pybroker_admin_token, client_context(settings_of_listener(config, ADMIN_NAME)))


def request(url: str, method: str, path: str, body: object = None, *, access: Access, response_s: float) -> Any:
    """Return the response, as JSON has it. `url` is the address of the API, with http://, https://, or nothing before it.

    Raises ApiError; OSError, or HTTPException or ValueError if it is not the API of a broker.
    """
    headers = {} if access.token is None else {"Authorization": f"Bearer {access.token}"}
    data = None
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    parts = urlsplit(url if "://" in url else f"{SCHEME}{url}")
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=response_s, context=access.context)
        if is_secure(url)
        else http.client.HTTPConnection(host, port, timeout=response_s)
    )
    with closing(connection):
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        content = json.loads(response.read())
    if response.status >= http.client.BAD_REQUEST:
        raise ApiError(response.status, content["error"])
    return content
