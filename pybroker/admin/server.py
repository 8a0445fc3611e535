"""The listener of the API: it takes requests apart, has them carried out, and makes their responses, in a thread of its own.

So neither a slow client nor a long response holds the broker's loop: the loop gets no more than requests such as clients send.

The module is imported only when there is a listener.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin.calls import BAD_REQUEST, UNAVAILABLE, AdminError, Call
from pybroker.admin.guards import BODY_BYTES_MAX, JSON_TYPE, Guards
from pybroker.admin.routes import route_of
from pybroker.http_server import Bounds, HttpServer, Response
from pybroker.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from pybroker.admin.subject import Parts, Subject
    from pybroker.http_server import Context, Request

logger = logging.getLogger(__name__)

CONNECTION_S: Final = 600.0
"""An advance of the clock may take long."""
READ_BYTES_MAX: Final = 64 << 20
"""A body that is too long is read up to this length, so that the client gets the response."""
HEADERS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


class AdminServer:
    """The listener of one broker. `start` and `stop` are called once each, from the broker's event loop."""

    def __init__(self, subject: Subject, token: str | None) -> None:
        self._subject, self._token = subject, token
        self._server = HttpServer("pybroker.admin.listener", "admin", Bounds(CONNECTION_S, BODY_BYTES_MAX, READ_BYTES_MAX))

    def start(self, host: str, port: int, context: Context | None = None) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address."""
        guards = Guards(host, self._token, is_tls=context is not None)
        return self._server.start(host, port, lambda: _Responder(guards, self._subject), context)

    def open(self, parts: Parts) -> None:
        """Carry out all requests from now on, because the broker serves clients."""
        self._subject.serving = parts

    def stop(self) -> None:
        """Close all sockets. A response in work is dropped."""
        self._server.stop()


class _Responder:
    """Finds the response to a request."""

    def __init__(self, guards: Guards, subject: Subject) -> None:
        self._guards, self._subject = guards, subject

    async def respond(self, request: Request) -> Response:
        """Return the response."""
        try:
            self._guards.check(request)
            route, names, query = route_of(request.method, request.path)
            call = Call(names, query, {} if route.body is None else _body(request.body or b""))
            return _response(route.status, await route.verb(self._subject, call))
        except AdminError as error:
            return _response(error.status, {"error": str(error)}, error.headers)
        except KafkaError as error:
            return _response(UNAVAILABLE, {"error": f"{error.code.name}: {error}"})
        except Exception:
            logger.exception("The request %s %s cannot be carried out because of a bug", request.method, request.path)
            return _response(500, {"error": "The broker has a bug, of which its log has the trace"})

    def stop(self) -> None:
        """Do nothing: the tasks end with the loop."""


def _body(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AdminError(BAD_REQUEST, f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise AdminError(BAD_REQUEST, "The body must be a JSON object")
    return body


def _response(status: int, content: object, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, json.dumps(content).encode() + b"\n", JSON_TYPE, headers=(*HEADERS, *headers))
