"""Lets requests go wrong by rules, where requests are handed to the dispatcher: every client in every language meets them.

The first rule that takes a request decides. Requests keep their order on a connection, so one without a response holds up those
behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.error_response import error_response
from pybroker.clock import SystemClock
from pybroker.faults.documents import document_of
from pybroker.faults.rule import AFTER, Rule, RuleError, rule_of
from pybroker.faults.trail import seen
from pybroker.network.context import Outgoing
from pybroker.protocol.codec import decode, decode_request_header, decode_response, encode_response, request_class, response_class
from pybroker.protocol.error_codes import KafkaError
from pybroker.protocol.parts import SendPart
from pybroker.records.batch import CRC_AT, batches

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.faults.about import NameOf
    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler
    from pybroker.protocol.parts import Part

PULL_BYTES: Final = 1 << 20
_SIZE: Final = 4


class Faults:
    """The rules of one broker, over all its lives. Any thread may change them; requests meet them in the loop's thread."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._rules: tuple[tuple[Rule, int], ...] = ()  # with the time when each was added, in monotonic ms
        self._hanging: set[Future[EncodedResponse]] = set()

    def add(self, **fields: Any) -> Rule:
        """Add a rule with the fields of Rule, and return it. Raises RuleError, also for a name that another rule has."""
        return self.put(Rule(**fields))

    def put(self, rule: Rule) -> Rule:
        """Add a rule, and return it. Raises RuleError for a name that another rule has."""
        if rule.name in self.rules:
            raise RuleError(f"{rule.name}: another rule has this name")
        self._rules = (*self._rules, (rule, self._clock.monotonic_ms()))
        return rule

    def load(self, path: Path | str) -> list[Rule]:
        """Add the rules of a file of JSON or YAML, which is a list of them. Raises OSError, ValueError, and RuleError."""
        content = document_of(Path(path))
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            raise ValueError(f"{path}: it must be a list of rules")
        return [self.put(rule_of(one)) for one in content]

    def remove(self, name: str) -> None:
        """Remove a rule. Raises KeyError for a name that none has."""
        self.rules[name]
        self._rules = tuple(one for one in self._rules if one[0].name != name)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules = ()

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name, in their order, with their counts."""
        return {rule.name: rule for rule, _ in self._rules}

    def release(self) -> None:
        """Close the connections with requests that get no response: the broker stops."""
        for one in tuple(self._hanging):
            one.cancel()

    def acting(self, handler: RequestHandler, name_of: NameOf) -> RequestHandler:
        """Return a handler that lets requests go wrong, and hands the others to `handler`."""

        def handle(connection: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
            rule = self._rule_for(connection, frame, name_of) if self._rules else None
            return handler(connection, frame) if rule is None else self._act(rule, handler, connection, frame)

        return handle

    def _rule_for(self, connection: ConnectionContext, frame: memoryview, name_of: NameOf) -> Rule | None:
        request = seen(connection, frame, name_of)
        if request is None:
            return None
        now_ms = self._clock.monotonic_ms()
        return next((rule for rule, added_ms in self._rules if rule.takes(request, (now_ms - added_ms) / 1000)), None)

    def _act(
        self, rule: Rule, handler: RequestHandler, connection: ConnectionContext, frame: memoryview
    ) -> EncodedResponse | Future[EncodedResponse]:
        if rule.when == AFTER or rule.action not in {"error", "drop", "close"}:
            request = _Request(frame)
            response = handler(connection, frame)
            return asyncio.get_running_loop().create_task(self._changed(rule, request, response))
        return _Request(frame).refused(rule) if rule.action == "error" else self._hanging_for(rule)

    async def _changed(
        self, rule: Rule, request: _Request, response: EncodedResponse | Future[EncodedResponse]
    ) -> EncodedResponse:
        """Wait for a response, and return what the rule makes of it. Raises CancelledError to have the connection closed."""
        encoded = await response if isinstance(response, asyncio.Future) else response
        if rule.action == "delay_s":
            await asyncio.sleep(rule.delay_s or 0.0)
            return encoded
        data = None if encoded is None else collected(encoded)
        if rule.action in {"drop", "close"}:
            return await self._hanging_for(rule)
        return None if data is None else _CHANGES[rule.action](rule, request, data)

    def _hanging_for(self, rule: Rule) -> Future[EncodedResponse]:
        """Return a response that never comes; when it is cancelled, the connection is closed."""
        future: Future[EncodedResponse] = asyncio.get_running_loop().create_future()
        self._hanging.add(future)
        future.add_done_callback(self._hanging.discard)
        if rule.action == "close":
            future.cancel()
        return future


class _Request:
    """A request, decoded while its bytes are there."""

    def __init__(self, frame: memoryview) -> None:
        header, at = decode_request_header(frame)
        self._version, self._correlation_id = header.api_version, header.correlation_id
        self._response = response_class(header.api_key)
        self._message = decode(request_class(header.api_key), header.api_version, memoryview(bytearray(frame)), at)

    def refused(self, rule: Rule) -> bytes | None:
        """Return the response with the error of the rule for everything that the request names; None if it gets no response."""
        response = error_response(self._message, self._response, self._version, KafkaError(rule.code))
        return None if response is None else self.encoded(response)

    def decoded(self, response: bytes) -> Any:
        """Return a response to this request."""
        return decode_response(self._response, self._version, memoryview(bytearray(response))[_SIZE:])[1]

    def encoded(self, response: object) -> bytes:
        """Return the bytes of a response."""
        return joined(encode_response(response, self._version, self._correlation_id))


Change = Callable[[Rule, _Request, bytes], "bytes | Outgoing | None"]


def _throttled(rule: Rule, request: _Request, response: bytes) -> bytes:
    message = request.decoded(response)
    if hasattr(message, "throttle_time_ms"):
        message.throttle_time_ms = rule.throttle_ms
    return request.encoded(message)


def _corrupted(_rule: Rule, request: _Request, response: bytes) -> bytes:
    """Return a Fetch response with a wrong checksum in each batch."""
    message = request.decoded(response)
    for partition in (one for topic in message.responses for one in topic.partitions):
        records = memoryview(bytearray(partition.records or b""))
        for batch in batches(records):
            records[batch.position + CRC_AT] ^= 0xFF
        partition.records = records
    return request.encoded(message)


def _cut(rule: Rule, _request: _Request, response: bytes) -> Outgoing:
    data = response[: rule.cut]
    return Outgoing([data], len(data), close_after=True)


def _refused(rule: Rule, request: _Request, _response: bytes) -> bytes | None:
    return request.refused(rule)


_CHANGES: Final[dict[str, Change]] = {
    "error": _refused,
    "cut": _cut,
    "throttle_ms": _throttled,
    "corrupt_crc": _corrupted,
}


def collected(sent: bytes | Outgoing) -> bytes:
    """Return all bytes of a response, as the network would send them, and close what it held."""
    if not isinstance(sent, Outgoing):
        return sent
    try:
        return joined(sent.parts)
    finally:
        sent.discard()


def joined(parts: list[Part]) -> bytes:
    """Return the bytes of all parts."""
    data = bytearray()
    for part in parts:
        if not isinstance(part, SendPart):
            data += part
            continue
        while pieces := part.pull(PULL_BYTES):
            for piece in pieces:
                data += piece
    return bytes(data)
