"""Takes a frame to its response: header, decode, handle, encode, and the three kinds of errors. The straight way of a request is
in `_dispatch_python.py`, native where that was built; here is what happens seldom, or takes a response apart.

Errors
    The peer breaks the protocol (garbage, an unknown key, a version that is not served): ProtocolViolation, and the network
    closes the connection with one log line. The only exception is ApiVersions in an unknown version: its response has v0 form and
    UNSUPPORTED_VERSION, because that is how clients find out what is served.
    A handler raises KafkaError: the response has its code for everything that was requested.
    A handler raises any other exception, or its response cannot be encoded, as a text of more than 32,767 bytes in an old
    version: a bug of the broker; a traceback in the log, a counter, UNKNOWN_SERVER_ERROR.
    That response cannot be made or encoded either: the connection is closed. So a request is never left without its end.
    The system has no memory: the connection is closed with one log line.

Source: KafkaApis.handle, RequestContext.parseRequest, ApiVersionsRequest.getErrorResponse.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from pybroker.api import _dispatch_python
from pybroker.api._dispatch_python import SIZE_PREFIX, DispatcherCore, Parked, Route, Timing
from pybroker.api.context import RequestContext
from pybroker.api.deferred import Deferred
from pybroker.api.element_budget import Reservation, parked
from pybroker.api.error_counts import ERROR_NAMES
from pybroker.api.handlers import api_versions
from pybroker.api.long_messages import Encoded, HeldRequest, LongMessages
from pybroker.api.registry import APIS, Api, load_api
from pybroker.api.slices import SlicedResponse
from pybroker.failures import drop_frames, is_shortage
from pybroker.metrics.counts import NO_ERROR
from pybroker.native import choose
from pybroker.network.context import ProtocolViolation
from pybroker.network.state import REPEATS_LEFT
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import TooManyElementsError, encode_response
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.turns.jobs import job
from pybroker.turns.watchdog import watchdog_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pybroker.api.context import Services
    from pybroker.api.response_memo import KeptResponse
    from pybroker.metrics.request_metrics import RequestMetrics
    from pybroker.network.context import ConnectionContext, EncodedResponse
    from pybroker.protocol.codec import RequestHeader
    from pybroker.protocol.parts import Part

logger = logging.getLogger(__name__)

USES_LEAST: Final = 2
"""A form that fewer requests had was not worth keeping; a connection with several such forms in a row gets no more."""

IS_NATIVE: Final = choose(_dispatch_python, globals())
assert ErrorCode.NONE.name == NO_ERROR


class Dispatcher(DispatcherCore):
    """The network's request handler: its method `handle`."""

    __slots__ = ("_long_messages", "_request_metrics")

    def __init__(self, broker: Services) -> None:
        super().__init__(broker)
        self.loop_elements_max = min(self.loop_elements_max, broker.config.pybroker_request_elements_max)
        self._long_messages = LongMessages(broker.config.pybroker_request_elements_max)
        self._request_metrics = {key: broker.metrics.request(key, api.name) for key, api in APIS.items()}

    def _first_of(self, key: int) -> Route | None:
        if key not in APIS:
            return None
        with job(f"import for {APIS[key].name}"):
            api = load_api(key)
        route = self._routes[key] = Route(api, self._request_metrics[key])
        return route

    def _keep_form(self, route: Route, context: RequestContext, request: object, frame: memoryview) -> None:
        connection = context.connection
        before = connection.repeated
        is_repeating = before is not None and before.uses >= USES_LEAST
        connection.repeats_left = REPEATS_LEFT if is_repeating else connection.repeats_left - 1
        connection.repeated = None
        if connection.repeats_left and route.repeats is not None:
            connection.repeated = repeated = route.repeats(context, request, frame)
            if repeated is not None:
                repeated.route = route

    def _count_errors(self, metrics: RequestMetrics, codes: Sequence[int]) -> int:
        return _count_errors(metrics, codes)

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
        none_count = _count_errors(metrics, kept.error_codes)
        encoded = kept.to(header.correlation_id)
        size += SIZE_PREFIX
        queue_ns = started_ns - connection.received_ns
        metrics.completed(header.api_version, size, len(encoded), queue_ns, monotonic_ns() - started_ns, 0, none_count)
        return encoded

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
        metrics.error(NO_ERROR, none_count)
        metrics.received(context.api_version, size + SIZE_PREFIX)
        return Timing(metrics.name, metrics, context.connection.received_ns, started_ns, handled_ns).outgoing(parts)

    def _decoded_later(
        self, connection: ConnectionContext, header: RequestHeader, frame: memoryview, *, body_offset: int, started_ns: int
    ) -> asyncio.Future[EncodedResponse]:
        context = RequestContext(connection, *header[1:])
        route = self._routes[header.api_key]
        held = HeldRequest(connection, frame)
        reservation = Reservation(self._long_messages.budget)
        operation = self._handle_long(route, context, held, body_offset, reservation)
        later: Any = self._later(route, context, None, operation, len(frame), started_ns, monotonic_ns())
        later.add_done_callback(lambda _: reservation.end())
        return later  # type: ignore[no-any-return]  # it is parked

    async def _handle_long(
        self, route: Route, context: RequestContext, held: HeldRequest, body_offset: int, reservation: Reservation
    ) -> Any:
        """Return the response to a request that is decoded in a thread."""
        version = context.api_version
        reservation.belongs_to_task()
        try:
            request = await self._long_messages.decode(route.request, version, held, body_offset, reservation)
        except TooManyElementsError as error:
            reservation.end()
            held.release_request()
            raise self._too_large(route, context) from error
        except BaseException:
            reservation.end()
            held.release_request()
            raise

        def let_go() -> None:
            nonlocal request
            if request is not None:
                decoded, request = [request], None
                self._long_messages.free(decoded, version)

        reservation.let_go = let_go
        try:
            if route.pieces is None:
                response = held.during(lambda: route.handle(self._broker, context, request))
            else:
                response = held.during(lambda: route.pieces.handle(route.handle, self._broker, context, request))  # type: ignore[union-attr]  # it has some
            if isinstance(response, Deferred):
                response = response.future()
            if isinstance(response, asyncio.Future) and not isinstance(response, SlicedResponse):
                parked()
            if inspect.isawaitable(response):
                response = await response
        except ProtocolViolation:
            raise
        except Exception as error:
            if is_shortage(error):
                raise
            reported = self._reported(route.api, context, error)
            response = await self._long_messages.run(_error_response, request, route.response, version, reported)
        finally:
            let_go()
            reservation.end()
        return response

    def _too_large(self, route: Route, context: RequestContext) -> ProtocolViolation:
        elements_max = self._broker.config.pybroker_request_elements_max
        return ProtocolViolation(
            f"{route.api.name} v{context.api_version} of client id {context.client_id!r} has more than {elements_max} elements,"
            " the value of pybroker.request.elements.max"
        )

    def _abandoned(self, api: Api, context: RequestContext, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, ProtocolViolation | KafkaError) and not is_shortage(error):
            self._log_bug(api, context, error)

    def _finish_after(self, parked: Parked, operation: Awaitable[Any]) -> None:
        rounds = watchdog_of(asyncio.get_running_loop()).rounds

        def finish(done: asyncio.Future[Any]) -> None:
            if done.cancelled():
                parked.outer.cancel()
            elif rounds.is_over:
                rounds.later(lambda: finish_now(done))
            else:
                finish_now(done)

        def finish_now(done: asyncio.Future[Any]) -> None:
            try:
                response = done.result()
            except BaseException as error:  # which `exception` would leave to the Future with its frames
                parked.finish(None, error)
                drop_frames(error)
            else:
                parked.finish(response, None)

        if isinstance(operation, SlicedResponse) and operation.ends_with_connection:
            parked.outer.add_done_callback(lambda sent: operation.give_up() if sent.cancelled() else None)
        asyncio.ensure_future(operation).add_done_callback(finish)

    def _encode_later(self, parked: Parked, response: object) -> None:
        api, context, outer, timing = parked.route.api, parked.context, parked.outer, parked.timing

        def encoded(done: asyncio.Future[Encoded]) -> None:
            if outer.done() or done.cancelled():
                outer.cancel()
                return
            error = done.exception()
            try:
                if error is None:
                    parts, codes = done.result()
                    for code, count in codes.items():
                        timing.metrics.error(ERROR_NAMES[code], count)
                else:
                    failure = self._failure(api, context, parked.request, error)
                    parts = encode_response(failure, context.api_version, context.correlation_id)
                outer.set_result(timing.outgoing(parts))
            except Exception as failed:
                outer.set_exception(failed)

        held, response = [response], None
        encoding = self._long_messages.encode(
            held,
            version=context.api_version,
            correlation_id=context.correlation_id,
        )
        encoding.add_done_callback(encoded)

    def _failure(self, api: Api, context: RequestContext, request: object, error: BaseException) -> object:
        """Return the response for an exception that a handler raised. Raises the exception itself if it is a shortage.

        Raises ProtocolViolation if the response must name what `request` asks for, and that was let go.
        """
        if is_shortage(error):
            raise error
        return _error_response(request, api.response, context.api_version, self._reported(api, context, error))

    def _reported(self, api: Api, context: RequestContext, error: BaseException) -> KafkaError:
        if isinstance(error, KafkaError):
            return drop_frames(error)
        self._log_bug(api, context, error)
        drop_frames(error)
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _log_bug(self, api: Api, context: RequestContext, error: BaseException) -> None:
        self._broker.metrics.unexpected_errors += 1
        logger.error(
            "%s v%d from %s failed, which is a bug; the response is UNKNOWN_SERVER_ERROR, or the connection is closed",
            api.name,
            context.api_version,
            context.connection,
            exc_info=error,
        )

    def _unsupported(self, header: RequestHeader) -> EncodedResponse:
        if header.api_key != ApiKey.API_VERSIONS:
            raise ProtocolViolation(f"version {header.api_version} of API key {header.api_key} is not served")
        response = api_versions.unsupported_version_response()
        (encoded,) = encode_response(response, 0, header.correlation_id)
        assert type(encoded) is bytes  # none of its fields is large
        return encoded


def _count_errors(metrics: RequestMetrics, codes: Sequence[int]) -> int:
    """Count the errors among the codes of a response, and return how many of its codes are NONE."""
    if not any(codes):
        return len(codes)
    counts = Counter(codes)
    none_count = counts.pop(0, 0)
    for code, count in counts.items():
        metrics.error(ERROR_NAMES[code], count)
    return none_count


def _error_response(request: object, cls: type[Any], api_version: int, error: KafkaError) -> object:
    from pybroker.api.error_response import error_response  # noqa: PLC0415 - imports messages that are rarely needed

    return error_response(request, cls, api_version, error)
