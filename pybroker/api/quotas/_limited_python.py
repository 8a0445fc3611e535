# cython: annotation_typing=False
"""Quotas in front of a handler, in Python; `_limited_native` is this same text, compiled with the types of `_limited_native.pxd`.

`limited.py` has the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, cast

from pybroker.api.handlers.fetch import replica_of
from pybroker.api.parts import plain, then
from pybroker.api.produce.repeats import Repeated
from pybroker.api.quotas.mutations import STRICT_SINCE, respond
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_response, encode_response
from pybroker.security.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from pybroker.security.quotas.usage import Mutations

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.registry import Api
    from pybroker.network.connection import Connection
    from pybroker.network.context import ConnectionContext
    from pybroker.security.quotas.usage import ClientUse, Usage

    Throttled = Callable[[Any], tuple[Any, int]]

__all__ = ["counted_again", "limited"]

_SIZE_BYTES: Final = 4
_BROKERS_ADD_PARTITIONS: Final = 4
"""The first version of AddPartitionsToTxn that brokers send; clients send those before."""


class _Use:
    """A request of a client that is held to its quotas. `plain` handles a part of a request without them."""

    __slots__ = ("_broker", "api", "client", "context")

    def __init__(self, api: Api, client: ClientUse, broker: Services, context: RequestContext) -> None:
        self.api = api
        self.client = client
        self.context = context
        self._broker = broker

    def plain(self, message: Any) -> Any:
        """Handle a request, or a part of it, by the handler of its API."""
        return plain(self.api, self._broker, self.context, message)

    def handle(self, way: Callable[[], Any], throttled: Throttled | None = None) -> Any:
        """Handle the request by `way`, as `timed` and `settled` do."""
        outcome, took_ns = self.timed(way)
        return self.settled(outcome, took_ns, throttled)

    def timed(self, way: Callable[[], Any]) -> tuple[Any, int]:
        """Return what `way` returns, and the time that it took in ns. That of an exception is counted."""
        started_ns = monotonic_ns()
        try:
            outcome = way()
        except Exception:
            _wait(self.context, self.client.time_throttle_ms(monotonic_ns() - started_ns))
            raise
        return outcome, monotonic_ns() - started_ns

    def settled(self, outcome: Any, took_ns: int, throttled: Throttled | None) -> Any:
        """Return the response, or a Future of it, and count the time. `throttled` returns what to send in place of a response,
        and the throttle time.
        """
        if type(outcome) is self.api.response:
            return self._finished(outcome, took_ns, throttled)
        return then(outcome, lambda response: self._finished(response, took_ns, throttled))

    def _finished(self, response: Any, took_ns: int, throttled: Throttled | None) -> Any:
        sent, throttle_ms = (response, 0) if throttled is None else throttled(response)
        throttle_ms = max(throttle_ms, self.client.time_throttle_ms(took_ns))
        return _with_throttle(self.api, self.context, sent, throttle_ms) if throttle_ms else sent


class _LimitedProduce(Repeated):
    """A Produce for those that are like it on its connection, which are counted as it was."""

    __slots__ = ("_plain", "_use")

    def __init__(self, repeated: Repeated, use: _Use) -> None:
        super().__init__(repeated.form, use.context)
        self._plain = repeated
        self._use = use

    def handle(self, broker: Services, records: memoryview) -> Any:
        """Append, and count the bytes and the time. Returns None as `Repeated.handle`, with nothing counted."""
        size = len(records)
        outcome, took_ns = self._use.timed(lambda: self._plain.handle(broker, records))
        if outcome is None:
            return None
        self.uses += 1
        return self._use.settled(outcome, took_ns, lambda response: _produced(self._use, response, size))

    def forget_records(self, request: Any) -> None:
        """Let go of the records, as those of a request without quotas."""
        self._plain.forget_records(request)


def limited(api: Api, broker: Services, usage: Usage) -> Api:
    """Return the API with a handler that holds clients to their quotas."""
    way, is_of_broker, repeats = _WAYS.get(api.key, _any), _OF_BROKERS.get(api.key), api.repeats

    def handle_limited(_broker: Services, context: RequestContext, message: Any) -> Any:
        client = client_use(usage, context.connection, context.client_id)
        if not client.is_limited or (is_of_broker is not None and is_of_broker(context, message)):
            return plain(api, broker, context, message)
        return way(_Use(api, client, broker, context), broker, message)

    def kept(context: RequestContext, message: Any, frame: memoryview) -> Repeated | None:
        found = None if repeats is None else repeats(context, message, frame)
        client = client_use(usage, context.connection, context.client_id)
        return found if found is None or not client.is_limited else _LimitedProduce(found, _Use(api, client, broker, context))

    return replace(api, handle=handle_limited, pieces=None, repeats=None if repeats is None else kept)


def client_use(usage: Usage, connection: ConnectionContext, client_id: str | None) -> ClientUse:
    """Return the use by the client of a connection."""
    return usage.of(connection.principal, client_id or "")


def counted_again(api: Api, usage: Usage, context: RequestContext, encoded: bytes, took_ns: int) -> bytes:
    """Count the time of a request that gets a response which was kept. Returns the response, with the throttle time if there is
    one.
    """
    throttle_ms = client_use(usage, context.connection, context.client_id).time_throttle_ms(took_ns)
    if not throttle_ms:
        return encoded
    response = _with_throttle(api, context, encoded, throttle_ms)
    (sent,) = encode_response(response, context.api_version, context.correlation_id)
    assert type(sent) is bytes, "no response with records is kept"
    return sent


def _with_throttle(api: Api, context: RequestContext, response: Any, throttle_ms: int) -> Any:
    """Return the response with the throttle time, and have the connection wait."""
    _wait(context, throttle_ms)
    if type(response) is bytes:  # it is encoded already
        _, response = decode_response(api.response, context.api_version, memoryview(response)[_SIZE_BYTES:])
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response


def _wait(context: RequestContext, throttle_ms: int) -> None:
    holder = cast("Connection | None", context.connection.holder)
    if throttle_ms and holder is not None:
        holder.throttle(throttle_ms)


def _any(use: _Use, _broker: Services, message: Any) -> Any:
    return use.handle(lambda: use.plain(message))


def _produce(use: _Use, _broker: Services, message: Any) -> Any:
    size = sum(len(one.records or b"") for topic in message.topic_data for one in topic.partition_data)

    return use.handle(lambda: use.plain(message), lambda response: _produced(use, response, size))


def _produced(use: _Use, response: Any, size: int) -> tuple[Any, int]:
    """Count the bytes of the records, and return the response and the throttle time."""
    return response, use.client.bytes_throttle_ms(PRODUCER_BYTE_RATE, size)


def _fetch(use: _Use, _broker: Services, message: Any) -> Any:
    client = use.client
    if (bytes_max := client.fetch_bytes_max()) is not None:
        message.max_bytes = min(message.max_bytes, bytes_max)
        message.min_bytes = min(message.min_bytes, message.max_bytes)
    session_id = message.session_id if message.session_epoch > 0 else 0

    def throttled(response: Any) -> tuple[Any, int]:
        size = 0
        for topic in response.responses:
            for one in topic.partitions:
                size += _size_of(one.records)
        throttle_ms = client.bytes_throttle_ms(CONSUMER_BYTE_RATE, size, True)
        return (use.api.response(session_id=session_id) if throttle_ms else response), throttle_ms

    return use.handle(lambda: use.plain(message), throttled)


def _size_of(records: Any) -> int:
    size = getattr(records, "size", None)
    return len(records or b"") if size is None else int(size)


def _mutate(use: _Use, broker: Services, message: Any) -> Any:
    bucket = use.client.bucket
    if bucket is None:
        return _any(use, broker, message)
    mutations = Mutations(bucket, broker.clock.monotonic_ms)
    return use.handle(lambda: respond(use, broker, message, mutations), lambda response: (response, mutations.throttle_ms))


_WAYS: Final[Mapping[ApiKey, Callable[[_Use, Services, Any], Any]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    **dict.fromkeys(STRICT_SINCE, _mutate),
}

_OF_BROKERS: Final[Mapping[ApiKey, Callable[[RequestContext, Any], bool]]] = {
    ApiKey.FETCH: lambda context, message: replica_of(context.api_version, message) >= 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda _, message: message.replica_id >= 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda context, _: context.api_version >= _BROKERS_ADD_PARTITIONS,
    **dict.fromkeys((ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), lambda *_: True),
}
"""Whether a request is another broker's, or belongs to a login."""
