# cython: annotation_typing=False
"""Quotas in front of a handler, in Python; `_limited_native` is this same text, compiled with the types of `_limited_native.pxd`.

`limited.py` has the contract.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pybroker.api.fetch.usual import replica_of
from pybroker.api.parts import plain, then
from pybroker.api.produce.repeats import Repeated
from pybroker.api.quotas.mutations import STRICT_SINCE, respond
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_response, encode_response
from pybroker.protocol.parts import parts_size
from pybroker.security.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from pybroker.security.quotas.usage import Mutations

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.registry import Api
    from pybroker.network.connection import Connection
    from pybroker.network.context import ConnectionContext
    from pybroker.security.quotas.usage import ClientUse, Usage

__all__ = ["counted_again", "limited"]

_SIZE_BYTES: Final = 4
_BROKERS_ADD_PARTITIONS: Final = 4
"""The first version of AddPartitionsToTxn that brokers send; clients send those before."""


class _Use:
    """A request of a client that is held to its quotas, of an API whose requests are counted by their time alone. `plain` handles
    a part of a request without quotas.
    """

    __slots__ = ("_broker", "api", "client", "context")

    def __init__(self, api: Api, client: ClientUse, broker: Services, context: RequestContext) -> None:
        self.api = api
        self.client = client
        self.context = context
        self._broker = broker

    def plain(self, message: Any) -> Any:
        """Handle a request, or a part of it, by the handler of its API."""
        return plain(self.api, self._broker, self.context, message)

    def handle(self, message: Any) -> Any:
        """Return the response, or a Future of it."""
        return self._handled(None, message, None)

    def _handled(self, way: Callable[[Any], Any] | None, message: Any, counted: Any) -> Any:
        """Handle `message` by `way`, None for `plain`, and count the time. Returns None, with nothing counted, if `way` does."""
        started_ns = time.monotonic_ns()
        try:
            outcome = self.plain(message) if way is None else way(message)
        except Exception:
            client = self.client
            _wait(self.context, client.time_throttle_ms(time.monotonic_ns() - started_ns, client.now_ms()))
            raise
        took_ns = time.monotonic_ns() - started_ns
        if type(outcome) is self.api.response:
            return self._finished(outcome, took_ns, counted)
        return None if outcome is None and way is not None else self._finished_later(outcome, took_ns, counted)

    def _finished_later(self, outcome: Any, took_ns: int, counted: Any) -> Any:
        return then(outcome, lambda response: self._finished(response, took_ns, counted))

    def _finished(self, response: Any, took_ns: int, counted: Any) -> Any:
        """Return what to send in place of a response, with the throttle time. `counted` is what the request was counted by."""
        client = self.client
        now_ms = client.now_ms()
        own_ms = self._throttle_ms(response, counted, now_ms)
        throttle_ms = max(own_ms, client.time_throttle_ms(took_ns, now_ms))
        if not throttle_ms:
            return response
        return _with_throttle(self.api, self.context, self._replaced(response, counted) if own_ms else response, throttle_ms)

    def _throttle_ms(self, _response: Any, _counted: Any, _now_ms: float) -> int:
        """Count what the API's own quota counts, and return the throttle time."""
        return 0

    def _replaced(self, response: Any, _counted: Any) -> Any:
        """Return what to send in place of a response that exceeds the API's own quota."""
        return response


class _ProduceUse(_Use):
    """A Produce, counted by the bytes of its records."""

    __slots__ = ()

    def handle(self, message: Any) -> Any:
        size = 0
        for topic in message.topic_data:
            for one in topic.partition_data:
                size += len(one.records or b"")
        return self._handled(None, message, size)

    def handle_records(self, way: Callable[[Any], Any], records: memoryview) -> Any:
        """Handle by `way` the records of a request whose form was kept."""
        return self._handled(way, records, len(records))

    def _throttle_ms(self, _response: Any, counted: Any, now_ms: float) -> int:
        return self.client.bytes_throttle_ms(PRODUCER_BYTE_RATE, counted, now_ms)


class _FetchUse(_Use):
    """A Fetch of a client, counted by the bytes of the records in its response, by its session."""

    __slots__ = ()

    def handle(self, message: Any) -> Any:
        if (bytes_max := self.client.fetch_bytes_max()) is not None:
            message.max_bytes = min(message.max_bytes, bytes_max)
            message.min_bytes = min(message.min_bytes, message.max_bytes)
        return self._handled(None, message, message.session_id if message.session_epoch > 0 else 0)

    def _throttle_ms(self, response: Any, _counted: Any, now_ms: float) -> int:
        size = 0
        for topic in response.responses:
            for one in topic.partitions:
                records = one.records
                if records is not None:
                    size += len(records) if type(records) is bytes else parts_size(records)
        return self.client.bytes_throttle_ms(CONSUMER_BYTE_RATE, size, now_ms, True)

    def _replaced(self, _response: Any, counted: Any) -> Any:
        return self.api.response(session_id=counted)


class _MutatingUse(_Use):
    """A request for changes of topics, counted by their partitions."""

    __slots__ = ()

    def handle(self, message: Any) -> Any:
        bucket = self.client.bucket
        if bucket is None:
            return self._handled(None, message, None)
        mutations = Mutations(bucket, self._broker.clock.monotonic_ms)
        return self._handled(partial(respond, self, self._broker, mutations=mutations), message, mutations)

    def _throttle_ms(self, _response: Any, counted: Any, _now_ms: float) -> int:
        return 0 if counted is None else counted.throttle_ms


class _LimitedProduce(Repeated):
    """A Produce for those that are like it on its connection, which are counted as it was."""

    __slots__ = ("_plain", "_use")

    def __init__(self, repeated: Repeated, use: _ProduceUse) -> None:
        super().__init__(repeated.form, use.context)
        self._plain = repeated
        self._use = use

    def handle(self, broker: Services, records: memoryview) -> Any:
        """Append, and count the bytes and the time. Returns None as `Repeated.handle`, with nothing counted."""
        outcome = self._use.handle_records(lambda some: self._plain.handle(broker, some), records)
        if outcome is not None:
            self.uses += 1
        return outcome

    def forget_records(self, request: Any) -> None:
        """Let go of the records, as those of a request without quotas."""
        self._plain.forget_records(request)


def limited(api: Api, broker: Services, usage: Usage) -> Api:
    """Return the API with a handler that holds clients to their quotas."""
    use, is_of_broker, repeats = _USES.get(api.key, _Use), _OF_BROKERS.get(api.key), api.repeats

    def handle_limited(_broker: Services, context: RequestContext, message: Any) -> Any:
        client = client_use(usage, context.connection, context.client_id)
        if not client.is_limited or (is_of_broker is not None and is_of_broker(context, message)):
            return plain(api, broker, context, message)
        return use(api, client, broker, context).handle(message)

    def kept(context: RequestContext, message: Any, frame: memoryview) -> Repeated | None:
        found = None if repeats is None else repeats(context, message, frame)
        client = client_use(usage, context.connection, context.client_id)
        return (
            found if found is None or not client.is_limited else _LimitedProduce(found, _ProduceUse(api, client, broker, context))
        )

    return replace(api, handle=handle_limited, pieces=None, repeats=None if repeats is None else kept)


def client_use(usage: Usage, connection: ConnectionContext, client_id: str | None) -> ClientUse:
    """Return the use by the client of a connection."""
    return usage.of(connection.principal, client_id or "")


def counted_again(api: Api, usage: Usage, context: RequestContext, encoded: bytes, took_ns: int) -> bytes:
    """Count the time of a request that gets a response which was kept. Returns the response, with the throttle time if there is
    one.
    """
    client = client_use(usage, context.connection, context.client_id)
    throttle_ms = client.time_throttle_ms(took_ns, client.now_ms())
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


_USES: Final[Mapping[ApiKey, type[_Use]]] = {
    ApiKey.PRODUCE: _ProduceUse,
    ApiKey.FETCH: _FetchUse,
    **dict.fromkeys(STRICT_SINCE, _MutatingUse),
}

_OF_BROKERS: Final[Mapping[ApiKey, Callable[[RequestContext, Any], bool]]] = {
    ApiKey.FETCH: lambda context, message: replica_of(context.api_version, message) >= 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda _, message: message.replica_id >= 0,
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda context, _: context.api_version >= _BROKERS_ADD_PARTITIONS,
    **dict.fromkeys((ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), lambda *_: True),
}
"""Whether a request is another broker's, or belongs to a login."""
