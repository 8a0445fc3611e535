"""The HTTP server of the metrics: /metrics, /livez and /readyz.

The module is imported only when metrics are on: tornado and prometheus_client cost some 10 MB and 80 ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest

from pybroker.http_server import (
    CHALLENGE,
    NOT_ALIVE,
    UNAUTHORIZED,
    Bounds,
    HttpServer,
    Request,
    Response,
    carries,
    is_alive,
)
from pybroker.metrics.exporter import EVERYTHING, BrokerCollector, Scope
from pybroker.metrics.pages import Breaks, Pages, StoppedError

if TYPE_CHECKING:
    from pybroker.http_server import Context
    from pybroker.metrics.broker_metrics import BrokerMetrics

logger = logging.getLogger(__name__)

CONNECTION_S: Final = 30.0
_PAGE: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPages:
    """The pages of one broker's metrics. It is used from one event loop, which is not the broker's."""

    def __init__(self, metrics: BrokerMetrics, scope: Scope = EVERYTHING) -> None:
        registry, breaks = CollectorRegistry(auto_describe=False), Breaks()
        registry.register(BrokerCollector(metrics, scope, breaks.take))
        self._pages = Pages(partial(generate_latest, registry), breaks)

    async def response(self) -> Response:
        """Return a page that is made from now on, or why there is none."""
        try:
            page = await self._pages.page()
        except StoppedError:
            return Response(503, b"The broker stops\n")
        except Exception:
            logger.exception("The page of metrics cannot be made because of a bug; the scraper gets an error")
            return Response(500, b"The page cannot be made; the log has the reason\n")
        return Response(200, page.plain, _PAGE, page.gzip)

    def stop(self) -> None:
        """Drop the page in work."""
        self._pages.stop()


class MetricsServer:
    """The server of one broker. `start` and `stop` are called once each, from the broker's event loop."""

    def __init__(
        self,
        metrics: BrokerMetrics,
        scope: Scope = EVERYTHING,
        *,
        why_not_ready: Callable[[], str | None] = lambda: None,
        connection_s: float = CONNECTION_S,
        token: str | None = None,
    ) -> None:
        """`token` is what a request for the page must carry; None for no such token.

        `why_not_ready` returns None when the broker is ready; it runs in another thread and only looks at plain attributes.
        """
        self._make_pages = partial(MetricsPages, metrics, scope)
        self._why_not_ready, self._token = why_not_ready, token
        self._server = HttpServer("metrics.listener", "metrics", Bounds(connection_s))

    def start(self, host: str, port: int, context: Context | None = None) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address."""
        broker_loop = asyncio.get_running_loop()

        def responder() -> _Responder:
            return _Responder(self._make_pages(), broker_loop, self._why_not_ready, self._token)

        return self._server.start(host, port, responder, context)

    def stop(self) -> None:
        """Close all sockets. A page in work is dropped."""
        self._server.stop()


class _Responder:
    """Finds the response to a request."""

    def __init__(
        self,
        pages: MetricsPages,
        broker_loop: asyncio.AbstractEventLoop,
        why_not_ready: Callable[[], str | None],
        token: str | None,
    ) -> None:
        self._pages = pages
        self._broker_loop = broker_loop
        self._why_not_ready, self._token = why_not_ready, token

    async def respond(self, request: Request) -> Response:
        """Return the response."""
        if request.method not in {"GET", "HEAD"}:
            return Response(405, b"The method must be GET or HEAD\n", headers=(("Allow", "GET, HEAD"),))
        path = request.path.partition("?")[0]
        if path == "/metrics":
            if not carries(request.headers, self._token):
                return Response(UNAUTHORIZED, b"The request needs the token of pybroker.metrics.token\n", headers=CHALLENGE)
            return await self._pages.response()
        if path == "/livez":
            reason = None if await is_alive(self._broker_loop) else NOT_ALIVE
        elif path == "/readyz":
            reason = self._why_not_ready()
        else:
            return Response(404, b"The paths are /metrics, /livez and /readyz\n")
        return Response(200, b"ok\n") if reason is None else Response(503, f"{reason}\n".encode())

    def stop(self) -> None:
        """Drop the page in work."""
        self._pages.stop()
