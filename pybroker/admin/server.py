"""The listener of the API: it takes requests apart, has them carried out, and makes their responses, in a thread of its own.

So neither a slow client nor a long response holds the broker's loop: the loop gets no more than requests such as clients send.

The module is imported only when there is a listener.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin.calls import BAD_REQUEST, STATUSES, UNAVAILABLE, AdminError, Call
from pybroker.admin.document import METRICS
from pybroker.admin.guards import BODY_BYTES_MAX, JSON_TYPE, Guards
from pybroker.admin.routes import route_of
from pybroker.http_server import Bounds, HttpServer, Response
from pybroker.metrics.pages import Breaks
from pybroker.protocol.error_codes import KafkaError
from pybroker.security.acl.binding import AclOperation
from pybroker.security.principal import ANONYMOUS
from pybroker.web import asset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.admin.logins import Logins
    from pybroker.admin.subject import Parts, Subject
    from pybroker.http_server import Context, Request
    from pybroker.metrics.http_server import MetricsPages

logger = logging.getLogger(__name__)

CONNECTION_S: Final = 600.0
"""An advance of the clock may take long."""
READ_BYTES_MAX: Final = 64 << 20
"""A body that is too long is read up to this length, so that the client gets the response."""
PROBES: Final = ("/livez", "/readyz")
"""Open to everyone, as a health check does not log in and has no token; they show nothing else."""
READS: Final = ("GET", "HEAD")
ASSET_HEADERS: Final = (
    ("Cache-Control", "no-cache"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
)
"""Nothing but the page's own files is loaded, and no other page shows it in a frame."""
HEADERS: Final = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


class AdminServer:
    """The listener of one broker. `start` and `stop` are called once each, from the broker's event loop."""

    def __init__(
        self,
        subject: Subject,
        token: str | None,
        logins: Logins | None = None,
        make_metrics: Callable[[], MetricsPages] | None = None,
    ) -> None:
        """`logins` are the users, if clients log in. `make_metrics` is called in the server's thread, for the first page."""
        self._subject, self._token, self._logins, self._make_metrics = subject, token, logins, make_metrics
        self._server = HttpServer("pybroker.admin.listener", "admin", Bounds(CONNECTION_S, BODY_BYTES_MAX, READ_BYTES_MAX))

    def start(self, host: str, port: int, context: Context | None = None) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address."""
        guards = Guards(host, self._token, self._logins, is_tls=context is not None)
        return self._server.start(host, port, lambda: _Responder(guards, self._subject, self._make_metrics), context)

    def open(self, parts: Parts) -> None:
        """Carry out all requests from now on, because the broker serves clients."""
        self._subject.serving = parts

    def stop(self) -> None:
        """Close all sockets. A response in work is dropped."""
        self._server.stop()


class _Responder:
    """Finds the response to a request."""

    def __init__(self, guards: Guards, subject: Subject, make_metrics: Callable[[], MetricsPages] | None) -> None:
        self._guards, self._subject, self._make_metrics = guards, subject, make_metrics
        self._metrics: MetricsPages | None = None

    async def respond(self, request: Request) -> Response:
        """Return the response."""
        path = request.path.partition("?")[0]
        try:
            self._guards.check(request)
            if request.method in READS and (asset := asset_of(path)) is not None:
                return Response(200, asset.data, asset.content_type, headers=ASSET_HEADERS)
            subject = self._subject.of(self._principal_of(request, path), request.host)
            if path == METRICS and request.method in READS and self._make_metrics is not None:
                await subject.require(AclOperation.DESCRIBE)
                self._metrics = self._metrics or self._make_metrics()
                return await self._metrics.response()
            route, names, query = route_of(request.method, request.path)
            if route.needs is not None:
                await subject.require(route.needs)
            call = Call(names, query, {} if route.body is None else _body(request.body or b""))
            return _response(route.status, await route.verb(subject, call))
        except AdminError as error:
            return _response(error.status, {"error": str(error)}, error.headers)
        except KafkaError as error:
            return _response(STATUSES.get(error.code, UNAVAILABLE), {"error": str(error)})
        except Exception:
            logger.exception("The request %s %s cannot be carried out because of a bug", request.method, request.path)
            return _response(500, {"error": "The broker has a bug, of which its log has the trace"})

    def _principal_of(self, request: Request, path: str) -> str:
        """Return the principal of a request. Raises AdminError."""
        if path in PROBES:
            return ANONYMOUS
        if self._guards.has_logins:
            _ = self._subject.parts  # the users are known when the broker serves
        return self._guards.principal_of(request)

    def stop(self) -> None:
        """Drop the page of metrics in work; the tasks end with the loop."""
        if self._metrics is not None:
            self._metrics.stop()


def _body(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AdminError(BAD_REQUEST, f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise AdminError(BAD_REQUEST, "The body must be a JSON object")
    return body


def _response(status: int, content: object, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    body = "".join(_pieces(content)).encode()
    return Response(status, body, JSON_TYPE, headers=(*HEADERS, *headers))


def _pieces(content: object) -> Iterator[str]:
    """Yield JSON. A long list comes in pieces with pauses, because the encoder keeps the interpreter from the broker's loop."""
    if not isinstance(content, dict):
        yield json.dumps(content)
    else:
        breaks = Breaks()
        for number, (key, value) in enumerate(content.items()):
            yield f"{', ' if number else '{'}{json.dumps(key)}: "
            if not isinstance(value, list):
                yield json.dumps(value)
                continue
            for place, one in enumerate(value):
                yield f"{', ' if place else '['}{json.dumps(one)}"
                breaks.take()
            yield "]" if value else "[]"
        yield "}" if content else "{}"
    yield "\n"
