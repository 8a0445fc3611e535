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
import logging
from collections import Counter
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from pybroker.api import _dispatch_python
from pybroker.api._dispatch_python import SIZE_PREFIX, DispatcherCore, Parked, Route, Timing
from pybroker.api.context import RequestContext
from pybroker.api.error_counts import ERROR_NAMES
from pybroker.api.handlers import api_versions
from pybroker.api.registry import APIS, Api, load_api
from pybroker.failures import drop_frames, is_shortage
from pybroker.metrics.counts import NO_ERROR
from pybroker.native import choose
from pybroker.network.context import ProtocolViolation
from pybroker.network.state import REPEATS_LEFT
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.loop import SlicedResponse
from pybroker.sharing.turns.jobs import job
from pybroker.sharing.turns.watchdog import watchdog_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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

    __slots__ = ("_checked", "_request_metrics")

    def __init__(self, broker: Services) -> None:
        super().__init__(broker)
        self._request_metrics = {key: broker.metrics.request(key, api.name) for key, api in APIS.items()}
        self._checked: Callable[[Api], Api] | None = None
        if broker.authorizer is not None:
            from pybroker.api.access.checked import checked  # noqa: PLC0415  only with an authorizer; longer than a turn may be

            self._checked = partial(checked, authorizer=broker.authorizer)

    def forget_routes(self) -> None:
        """Load again what serves an API, at its next request: what is in front of the handlers has changed."""
        self._routes.clear()

    def _first_of(self, key: int) -> Route | None:
        if key not in APIS:
            return None
        with job(f"import for {APIS[key].name}"):
            api = load_api(key)
            if self._checked is not None:
                api = self._checked(api)
            if self._broker.usage is not None:
                from pybroker.api.quotas.limited import limited  # noqa: PLC0415  only with quotas

                api = limited(api, self._broker, self._broker.usage)
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
        route: Route,
        kept: KeptResponse,
        connection: ConnectionContext,
        header: RequestHeader,
        *,
        size: int,
        started_ns: int,
    ) -> bytes:
        metrics, usage = route.metrics, self._broker.usage
        none_count = _count_errors(metrics, kept.error_codes)
        encoded = kept.to(header.correlation_id)
        if usage is not None:
            from pybroker.api.quotas.limited import counted_again  # noqa: PLC0415  as above

            context = RequestContext(connection, *header[1:])
            encoded = counted_again(route.api, usage, context, encoded, monotonic_ns() - started_ns)
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

    def _too_large(self, header: RequestHeader) -> ProtocolViolation:
        return ProtocolViolation(
            f"{APIS[header.api_key].name} v{header.api_version} of client id {header.client_id!r} has more than"
            f" {self._elements_max} elements, the value of pybroker.request.elements.max"
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

    def _failure(self, api: Api, context: RequestContext, request: object, error: BaseException) -> object:
        """Return the response for an exception that a handler raised. Raises the exception itself if it is a shortage."""
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
