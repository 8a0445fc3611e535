"""A client of the API: one request over a connection of its own, and the response."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit


class ApiError(RuntimeError):
    """A request that the broker refuses. The text is its sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def request(url: str, method: str, path: str, body: object = None, *, token: str | None, response_s: float) -> Any:
    """Return the response, as JSON has it. `url` is the address of the API, with or without `http://`.

    Raises ApiError; OSError, or HTTPException or ValueError if it is not the API of a broker.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None
    if body is not None:
        data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    parts = urlsplit(url if "://" in url else f"http://{url}")
    with closing(http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=response_s)) as connection:
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        content = json.loads(response.read())
    if response.status >= http.client.BAD_REQUEST:
        raise ApiError(response.status, content["error"])
    return content
