"""A client of the API, for tests. Each response must be as the OpenAPI document describes it."""

from __future__ import annotations

import asyncio
import http.client
import json
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import urlopen

from pybroker.admin.document import document_of
from pybroker.admin.routes import ROUTES
from tests.admin.described import Described

TIMEOUT_S = 60
DESCRIBED = Described(document_of(ROUTES))


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Message

    @property
    def error(self) -> str:
        return str(self.body["error"])


class Api:
    """The API at a URL. Each method blocks, but for `of_loop`."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def request(
        self, method: str, path: str, body: object = None, *, data: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT_S)
        sent = data if body is None else json.dumps(body).encode()
        kind = {} if sent is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, sent, {**kind, **self._headers, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        reply = Reply(response.status, json.loads(text) if text else None, response.headers)
        if method != "HEAD":
            DESCRIBED.check(method, path, reply.status, reply.body)
        return reply

    def text(self, path: str) -> bytes:
        """Return the body of a response that is not JSON."""
        with urlopen(f"{self.url}{path}", timeout=TIMEOUT_S) as response:
            body: bytes = response.read()
            return body

    async def of_loop(self, *arguments: Any, **options: Any) -> Reply:
        """Send a request while the loop of the test serves it."""
        return await asyncio.to_thread(self.request, *arguments, **options)
