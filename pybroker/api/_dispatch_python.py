# cython: annotation_typing=False
"""The straight way of a request through the dispatcher: header, decode, handle, encode, count. `_dispatch_native` is this same
text, compiled with the types of `_dispatch_native.pxd`. `dispatch.py` has the slow path.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import pybroker.model as model  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.api.context import RequestContext
from pybroker.api.deferred import Deferred
from pybroker.api.response_memo import KeptResponse
from pybroker.metrics.counts import NO_ERROR
from pybroker.network.context import Outgoing, ProtocolViolation
from pybroker.protocol.codec import (
    DAMAGE,
    HEADER_LAYOUTS,
    UNFIT,
    DecodeError,
    RequestHeader,
    TooManyElementsError,
    decode,
    decode_request_header,
    encode_response,
    usual_request_header,
)
from pybroker.protocol.schema import schema_of
from pybroker.sharing.turns.jobs import note

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pybroker.api.context import Services
    from pybroker.api.produce.repeats import Repeated
    from pybroker.api.registry import Api
    from pybroker.metrics.request_metrics import RequestMetrics
    from pybroker.network.context import ConnectionContext, EncodedResponse
    from pybroker.protocol.parts import Part

__all__ = ["DispatcherCore", "Parked", "Route", "Timing"]

SIZE_PREFIX: Final = 4
NO_MESSAGE: Final = (*DAMAGE, DecodeError)
NOTED_NS: Final = 1_000_000
"""A request that takes longer is noted, so that the turn of the loop may have its name."""


class Route:
    """An API that was requested, with its counters: what a request needs of both."""

    __slots__ = (
        "api",
        "decoders",
        "encoders",
        "error_codes",
        "handle",
        "highest",
        "lowest",
        "memo",
        "metrics",
        "pieces",
        "repeats",
        "request",
        "response",
    )

    def __init__(self, api: Api, metrics: RequestMetrics) -> None:
        self.api = api
        self.metrics = metrics
        self.lowest = api.lowest
        self.highest = api.highest
        self.request = api.request
        self.response = api.response
        self.decoders = schema_of(api.request).decoders  # of the versions that were requested so far, as the next
        self.encoders = schema_of(api.response).encoders
        self.handle = api.handle
        self.error_codes = api.error_codes
        self.pieces = api.pieces
        self.memo = api.memo
        self.repeats = api.repeats


class Timing:
    """The times when a request with a later or a streamed response passed from stage to stage, in monotonic ns.

    `name` is that of the API.
    """

    __slots__ = ("handled_ns", "metrics", "ready_ns", "received_ns", "size", "started_ns")

    def __init__(self, name: str, metrics: RequestMetrics, received_ns: int, started_ns: int, handled_ns: int) -> None:
        self.metrics = metrics
        self.received_ns = received_ns
        self.started_ns = started_ns
        self.handled_ns = self.ready_ns = handled_ns
        self.size = 0
        if handled_ns - started_ns > NOTED_NS:
            note(name, handled_ns - started_ns)

    def sent(self) -> None:
        """Count the request: the last byte of a streamed response was handed over."""
        self.responded(self.size)

    def responded(self, size: int) -> None:
        """Count the request; its response of `size` bytes is out, or on its way with the next write."""
        self.metrics.responded(
            size,
            self.started_ns - self.received_ns,
            self.handled_ns - self.started_ns,
            self.ready_ns - self.handled_ns,
            time.monotonic_ns() - self.ready_ns,
        )

    def outgoing(self, parts: list[Part]) -> bytes | Outgoing:
        """Return a single bytes object as it is; else parts that the network pulls, and that are counted when they are sent."""
        first = parts[0]
        assert type(first) is bytes  # it begins with the size of the rest
        if len(parts) == 1:
            self.responded(len(first))
            return first
        self.size = size = SIZE_PREFIX + int.from_bytes(first[:SIZE_PREFIX])
        return Outgoing(parts, size, self.sent)


class Parked:
    """A request without a response yet; `outer` gets the encoded response."""

    __slots__ = ("_core", "context", "outer", "request", "route", "timing")

    def __init__(  # noqa: PLR0917  (as `DispatcherCore._later`)
        self, core: DispatcherCore, route: Route, context: RequestContext, request: object, started_ns: int, handled_ns: int
    ) -> None:
        self._core = core
        self.route = route
        self.context = context
        self.request = request
        self.timing = Timing(route.api.name, route.metrics, context.connection.received_ns, started_ns, handled_ns)
        self.outer: asyncio.Future[EncodedResponse] = asyncio.get_running_loop().create_future()

    def finish(self, response: Any, error: BaseException | None) -> None:
        """Take the response of the operation, or its error, and encode it."""
        core, outer, timing = self._core, self.outer, self.timing
        route, context = self.route, self.context
        if outer.done():
            core._abandoned(route.api, context, error)
            return
        if isinstance(error, ProtocolViolation):
            outer.set_exception(error)
            return
        timing.ready_ns = time.monotonic_ns()
        try:
            if error is not None:
                response = core._failure(route.api, context, self.request, error)
            if response is None:
                outer.set_result(None)
                return
            response, parts = core._encoded(route, context, self.request, response)
            timing.metrics.error(NO_ERROR, core._none_count(route, response))
            outer.set_result(timing.outgoing(parts))
            took_ns = time.monotonic_ns() - timing.ready_ns
            if took_ns > NOTED_NS:
                note(route.api.name, took_ns)
        except Exception as failure:
            outer.set_exception(failure)


class DispatcherCore:
    """The way of every request. `Dispatcher` has the rest."""

    __slots__ = ("_broker", "_elements_max", "_routes")

    def __init__(self, broker: Services) -> None:
        self._broker = broker
        self._elements_max = broker.config.pybroker_request_elements_max
        self._routes: dict[int, Route] = {}
        """The APIs that were requested so far, by their keys."""

    def handle(self, connection: ConnectionContext, frame: memoryview) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle one request and return its response. The frame is borrowed until then. Raises ProtocolViolation."""
        started_ns = time.monotonic_ns()
        repeated = connection.repeated
        if repeated is not None:
            records = repeated.form.records_in(frame)
            if records is not None:
                response = self._handled_again(connection, repeated, frame, records, started_ns)
                if response is not None:
                    return response
        return self._handled(connection, frame, started_ns)

    def _handled(
        self, connection: ConnectionContext, frame: memoryview, started_ns: int
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Decode and handle one request and return its response. Raises ProtocolViolation."""
        size = len(frame)
        memo_key: Any = None
        try:
            header, body_offset = usual_request_header(frame, HEADER_LAYOUTS, RequestHeader) or decode_request_header(frame)
            key, api_version, correlation_id, client_id = header
            route = self._routes.get(key) or self._first_of(key)
            if route is None or not route.lowest <= api_version <= route.highest:
                return self._unsupported(header)
            if connection.used_route is not route or connection.used_version != api_version:
                self._broker.clients.changed(connection, route, api_version, client_id)
            connection.used += 1
            if route.memo is not None:
                memo_key = route.memo.key(connection, api_version, frame[body_offset:])
                if (kept := route.memo.find(self._broker.controller.image, memo_key)) is not None:
                    return self._send_again(route, kept, connection, header, size=size, started_ns=started_ns)
            request = self._decoded(route, api_version, frame, body_offset)
        except TooManyElementsError as error:
            raise self._too_large(header) from error
        except DecodeError as error:
            raise ProtocolViolation(f"a request that cannot be read: {error}") from error
        context = model.new_tuple(RequestContext, (connection, api_version, correlation_id, client_id))
        try:
            if route.pieces is None or not route.pieces.is_large(request, size):
                response = route.handle(self._broker, context, request)
            else:
                response = route.pieces.handle(route.handle, self._broker, context, request)
        except ProtocolViolation:
            route.metrics.received(api_version, size + SIZE_PREFIX)
            raise
        except Exception as error:
            response = self._failure(route.api, context, request, error)
        if route.repeats is not None and type(response) is bytes and connection.repeats_left > 0:
            self._keep_form(route, context, request, frame)
        return self._finished(route, context, request, response, size, started_ns, time.monotonic_ns(), memo_key)

    def _handled_again(
        self, connection: ConnectionContext, repeated: Repeated, frame: memoryview, records: memoryview, started_ns: int
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Handle a request of a form that was kept, and return its response; None, with nothing done, if it must be decoded."""
        route: Route = repeated.route
        error: Exception | None = None
        try:
            response = repeated.handle(self._broker, records)
            if response is None:
                return None
        except Exception as failure:
            error, response = failure, None
        handled_ns = time.monotonic_ns()
        if connection.used_route is not route or connection.used_version != repeated.version:
            self._broker.clients.changed(connection, route, repeated.version, repeated.client_id)
        connection.used += 1
        if type(response) is bytes:
            self._count(route, connection, repeated.version, len(frame), len(response), started_ns, handled_ns, 1)
            return response
        header, body_offset = decode_request_header(frame)
        context = RequestContext(connection, *header[1:])
        request = self._decoded(route, context.api_version, frame, body_offset)
        repeated.forget_records(request)
        if error is not None:
            response = self._failure(route.api, context, request, error)
            del error  # else this frame and the exception keep each other
        elif type(response) is not route.response:
            connection.is_in_order = True  # the request only waits
        return self._finished(route, context, request, response, len(frame), started_ns, handled_ns, None)

    def _finished(  # noqa: PLR0917  (as above)
        self,
        route: Route,
        context: RequestContext,
        request: object,
        response: Any,
        size: int,
        started_ns: int,
        handled_ns: int,
        memo_key: Any,
    ) -> EncodedResponse | asyncio.Future[EncodedResponse]:
        """Return the encoded response to a request of `size` bytes, or what becomes of it if it has none yet."""
        encoded: bytes = response
        if type(response) is not bytes:  # else the handler has encoded it
            if type(response) is not route.response:
                return self._later(route, context, request, response, size, started_ns, handled_ns)
            response, parts = self._encoded(route, context, request, response)
            if len(parts) > 1 or type(parts[0]) is not bytes:  # nearly never, except for large fetches
                none_count, times = self._none_count(route, response), {"started_ns": started_ns, "handled_ns": handled_ns}
                return self._streamed(route.metrics, context, parts, none_count, size=size, **times)
            encoded = parts[0]
        none_count = self._none_count(route, response)
        if route.memo is not None and not getattr(response, "throttle_time_ms", 0):
            route.memo.keep(self._broker.controller.image, memo_key, KeptResponse(encoded, route.error_codes(response)))
        self._count(route, context.connection, context.api_version, size, len(encoded), started_ns, handled_ns, none_count)
        return encoded

    def _count(  # noqa: PLR0917  (as above)
        self,
        route: Route,
        connection: ConnectionContext,
        api_version: int,
        size: int,
        response_size: int,
        started_ns: int,
        handled_ns: int,
        none_count: int,
    ) -> None:
        """Count a request whose response goes out with this turn."""
        sent_ns = time.monotonic_ns()
        if sent_ns - started_ns > NOTED_NS:
            note(route.api.name, sent_ns - started_ns)
        route.metrics.completed(
            api_version,
            size + SIZE_PREFIX,
            response_size,
            started_ns - connection.received_ns,
            handled_ns - started_ns,
            sent_ns - handled_ns,
            none_count,
        )

    def _later(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self, route: Route, context: RequestContext, request: Any, response: Any, size: int, started_ns: int, handled_ns: int
    ) -> asyncio.Future[EncodedResponse] | None:
        """Return what becomes of a request that has no response yet, or never has one.

        The Future is cancelled with the connection; the operation then continues.
        """
        route.metrics.received(context.api_version, size + SIZE_PREFIX)
        if response is None:
            Timing(route.api.name, route.metrics, context.connection.received_ns, started_ns, handled_ns).responded(0)
            return None
        parked = Parked(self, route, context, request, started_ns, handled_ns)
        if type(response) is Deferred:
            response.when_complete(parked.finish)
        else:
            self._finish_after(parked, response)
        return parked.outer

    def _decoded(self, route: Route, api_version: int, frame: memoryview, body_offset: int) -> object:
        """Return the request. Raises what `decode` raises, and for damage only `decode` finds out what is wrong."""
        decoder = route.decoders.get(api_version)
        if decoder is not None:
            try:
                return decoder(frame, body_offset, self._elements_max)
            except NO_MESSAGE:
                pass  # `decode` meets it again
        return decode(route.request, api_version, frame, body_offset, elements_max=self._elements_max)

    def _encoded(self, route: Route, context: RequestContext, request: object, response: object) -> tuple[object, list[Part]]:
        """Return the response and its parts; if it cannot be encoded, those of the response for that error."""
        if type(response) is bytes:
            return response, [response]
        _, api_version, correlation_id, _ = context
        encoder = route.encoders.get(api_version)
        try:
            if encoder is not None and type(response) is route.response:
                try:
                    encode, pack_head = encoder
                    return response, encode(response, pack_head(correlation_id))
                except UNFIT:
                    pass  # `encode_response` meets it again
            return response, encode_response(response, api_version, correlation_id)
        except Exception as error:
            response = self._failure(route.api, context, request, error)
        return response, encode_response(response, api_version, correlation_id)

    def _none_count(self, route: Route, response: object) -> int:
        """Count the errors of a response, and return how many of its codes are NONE."""
        if type(response) is bytes:
            return 1
        codes = route.error_codes(response)
        return self._count_errors(route.metrics, codes) if any(codes) else len(codes)

    # -- what `Dispatcher` does

    def _abandoned(self, api: Api, context: RequestContext, error: BaseException | None) -> None:
        """Note that a request has ended whose connection is gone, so that no client gets its response, or `error`."""
        raise NotImplementedError

    def _keep_form(self, route: Route, context: RequestContext, request: object, frame: memoryview) -> None:
        """Keep what the next requests of a connection need if they are like this one."""
        raise NotImplementedError

    def _first_of(self, key: int) -> Route | None:
        """Load what serves an API at its first request; None if the API is not served."""
        raise NotImplementedError

    def _unsupported(self, header: RequestHeader) -> EncodedResponse:
        """Return the response to a version or an API that is not served. Raises ProtocolViolation if there is none."""
        raise NotImplementedError

    def _failure(self, api: Api, context: RequestContext, request: object, error: BaseException) -> object:
        """Return the response for an exception that a handler raised. Raises the exception itself if it is a shortage."""
        raise NotImplementedError

    def _count_errors(self, metrics: RequestMetrics, codes: Any) -> int:
        """Count the errors among the codes of a response, and return how many of its codes are NONE."""
        raise NotImplementedError

    def _send_again(
        self,
        route: Route,
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

    def _finish_after(self, parked: Parked, operation: Awaitable[Any]) -> None:
        """Give the outcome of `operation` to the parked request."""
        raise NotImplementedError

    def _too_large(self, header: RequestHeader) -> ProtocolViolation:
        """Return the error for a request that has too many elements."""
        raise NotImplementedError
