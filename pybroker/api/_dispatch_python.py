# cython: annotation_typing=False
"""The straight way of a request through the dispatcher: header, decode, handle, encode, count. `_dispatch_native` is this same
text, compiled with the types of `_dispatch_native.pxd`. `dispatch.py` has everything that happens seldom.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.context import RequestContext
from pybroker.api.pieces import LARGE_BYTES
from pybroker.api.response_memo import KeptResponse
from pybroker.model import new_tuple
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import (
    AT_ONCE_ELEMENTS,
    DecodeError,
    LongMessageError,
    decode,
    decode_request_header,
    encode_response,
)
from pybroker.turns.jobs import note

if TYPE_CHECKING:
    import asyncio

    from pybroker.api.context import Services
    from pybroker.api.lane import Lane
    from pybroker.api.registry import Api
    from pybroker.metrics.request_metrics import RequestMetrics
    from pybroker.network.context import ConnectionContext, EncodedResponse
    from pybroker.protocol.codec import RequestHeader
    from pybroker.protocol.parts import Part

__all__ = ["DispatcherCore", "Route"]

SIZE_PREFIX: Final = 4
NOTED_NS: Final = 1_000_000
"""A request that takes longer is noted, so that the turn of the loop may have its name."""


class Route:
    """An API that was requested, with its counters: what a request needs of both. `lane` is None for most APIs."""

    __slots__ = ("api", "error_codes", "handle", "highest", "lane", "lowest", "memo", "metrics", "pieces", "request", "response")

    def __init__(self, api: Api, lane: Lane | None, metrics: RequestMetrics) -> None:
        self.api = api
        self.lane = lane
        self.metrics = metrics
        self.lowest = api.lowest
        self.highest = api.highest
        self.request = api.request
        self.response = api.response
        self.handle = api.handle
        self.error_codes = api.error_codes
        self.pieces = api.pieces
        self.memo = api.memo


class DispatcherCore:
    """What every request goes through. `Dispatcher` has the rest.

    `at_once_elements`: a message of more elements is decoded or encoded in a thread.
    """

    __slots__ = ("_broker", "_routes", "at_once_elements")

    def __init__(self, broker: Services) -> None:
        self._broker = broker
        self.at_once_elements = AT_ONCE_ELEMENTS
        self._routes: dict[int, Route] = {}
        """The APIs that were requested so far, by their keys."""

    def handle(self, connection: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle one request and return its response. The frame is borrowed until then. Raises ProtocolViolation."""
        started_ns = time.monotonic_ns()
        size = len(frame)
        try:
            header, body_offset = decode_request_header(frame)
            key, api_version, correlation_id, client_id = header
            route = self._routes.get(key) or self._first_of(key)
            if route is None or not route.lowest <= api_version <= route.highest:
                return self._unsupported(header)
            if route.lane is not None and not route.lane.is_open:
                return route.lane.take(connection, frame)
            if route.memo is not None:
                memo_key = route.memo.key(connection, api_version, frame[body_offset:])
                if (kept := route.memo.find(self._broker.controller.image, memo_key)) is not None:
                    return self._send_again(route.metrics, kept, connection, header, size=size, started_ns=started_ns)
            request = decode(route.request, api_version, frame, body_offset, elements_max=self.at_once_elements)
        except LongMessageError:
            return self._decoded_later(connection, header, frame, body_offset=body_offset, started_ns=started_ns)
        except DecodeError as error:
            raise ProtocolViolation(f"a request that cannot be read: {error}") from error
        context = new_tuple(RequestContext, (connection, api_version, correlation_id, client_id))
        try:
            if route.pieces is None or size <= LARGE_BYTES:
                response = route.handle(self._broker, context, request)
            else:
                response = route.pieces.handle(route.handle, self._broker, context, request)
        except ProtocolViolation:
            route.metrics.received(api_version, size=size + SIZE_PREFIX)
            raise
        except Exception as error:
            response = self._failure(route.api, context, request, error)
        handled_ns = time.monotonic_ns()
        if type(response) is not route.response:
            return self._later(route, context, request, response, size=size, started_ns=started_ns, handled_ns=handled_ns)
        response, parts = self._encoded(route.api, context, request, response)
        if not parts:
            return self._later(route, context, request, response, size=size, started_ns=started_ns, handled_ns=handled_ns)
        codes = route.error_codes(response)
        none_count = self._count_errors(route.metrics, codes) if any(codes) else len(codes)
        encoded = parts[0]
        if len(parts) > 1 or type(encoded) is not bytes:  # nearly never, except for large fetches
            times = {"started_ns": started_ns, "handled_ns": handled_ns}
            return self._streamed(route.metrics, context, parts, none_count, size=size, **times)
        if route.memo is not None:
            route.memo.keep(self._broker.controller.image, memo_key, KeptResponse(encoded, codes))
        sent_ns = time.monotonic_ns()
        if sent_ns - started_ns > NOTED_NS:
            note(route.api.name, sent_ns - started_ns)
        route.metrics.at_once(
            api_version,
            size + SIZE_PREFIX,
            len(encoded),
            started_ns - connection.received_ns,
            handled_ns - started_ns,
            sent_ns - handled_ns,
            none_count,
        )
        return encoded

    def _encoded(self, api: Api, context: RequestContext, request: object, response: object) -> tuple[object, list[Part]]:
        """Return the response and its parts; if it cannot be encoded, those of the response for that error.

        A long response has no parts yet.
        """
        _, api_version, correlation_id, _ = context
        try:
            return response, encode_response(response, api_version, correlation_id, elements_max=self.at_once_elements)
        except LongMessageError:
            return response, []
        except Exception as error:
            response = self._failure(api, context, request, error)
        return response, encode_response(response, api_version, correlation_id)

    # -- what `Dispatcher` does

    def _first_of(self, key: int) -> Route | None:
        """Load what serves an API at its first request; None if the API is not served."""
        raise NotImplementedError

    def _unsupported(self, header: RequestHeader) -> EncodedResponse:
        """Return the response to a version or an API that is not served. Raises ProtocolViolation if there is none."""
        raise NotImplementedError

    def _failure(self, api: Api, context: RequestContext, request: object, error: BaseException) -> object:
        """Return the response for an exception that a handler raised. Raises MemoryError if the exception is one."""
        raise NotImplementedError

    def _count_errors(self, metrics: RequestMetrics, codes: Any) -> int:
        """Count the errors among the codes of a response, and return how many of its codes are NONE."""
        raise NotImplementedError

    def _send_again(
        self,
        metrics: RequestMetrics,
        kept: KeptResponse,
        connection: ConnectionContext,
        header: RequestHeader,
        *,
        size: int,
        started_ns: int,
    ) -> bytes:
        """Count a request whose response was kept, and return that response."""
        raise NotImplementedError

    def _streamed(
        self,
        metrics: RequestMetrics,
        context: RequestContext,
        parts: list[Part],
        none_count: int,
        *,
        size: int,
        started_ns: int,
        handled_ns: int,
    ) -> EncodedResponse:
        """Return a response of several parts, which is counted when the last part is sent."""
        raise NotImplementedError

    def _later(
        self, route: Route, context: RequestContext, request: Any, response: Any, *, size: int, started_ns: int, handled_ns: int
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Return what becomes of a request that has no response yet, a long one, or never has one."""
        raise NotImplementedError

    def _decoded_later(
        self, connection: ConnectionContext, header: RequestHeader, frame: memoryview, *, body_offset: int, started_ns: int
    ) -> asyncio.Future[EncodedResponse]:
        """Handle a request that is decoded in a thread."""
        raise NotImplementedError
