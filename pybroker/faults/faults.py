"""Lets requests go wrong by rules, where requests are handed to the dispatcher: every client in every language meets them.

The first rule that takes a request decides. Requests keep their order on a connection, so one without a response holds up those
behind it. Rules about disks are in force from the start of the broker, or from when they are added, until they are removed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.error_response import error_response
from pybroker.clock import SystemClock
from pybroker.faults.disks import Disks
from pybroker.faults.documents import document_of
from pybroker.faults.rule import AFTER, IN_THE_STATE, Rule, RuleError, rule_of
from pybroker.faults.trail import seen
from pybroker.network.context import Outgoing
from pybroker.network.postponed import postponed
from pybroker.protocol.codec import decode, decode_request_header, decode_response, encode_response, request_class, response_class
from pybroker.protocol.error_codes import KafkaError
from pybroker.protocol.parts import SendPart
from pybroker.records.batch import CRC_AT, batches

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.faults.about import NameOf
    from pybroker.faults.parts import Parts
    from pybroker.faults.trail import SeenRequest
    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler
    from pybroker.protocol.parts import Part

PULL_BYTES: Final = 1 << 20
LOOP_S: Final = 30.0
"""How long another thread waits for the loop, in which rules about disks begin and end."""
_SIZE: Final = 4


class Faults:
    """The rules of one broker, over all its lives. Any thread may change them; requests meet them in the loop's thread."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._rules: tuple[tuple[Rule, int], ...] = ()  # with the time when each was added, in monotonic ms
        self._hanging: set[Future[EncodedResponse]] = set()
        self._muted: dict[str, set[Future[None]]] = {}  # by rule: those for which connections wait that are not read
        self._parts: Parts | None = None  # while the broker runs
        self._disks: Disks | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}  # of rules about disks whose time begins or ends

    def open(self, parts: Parts) -> None:
        """Let rules act on the parts of a broker that starts, in whose loop this is called."""
        self._parts, self._loop = parts, asyncio.get_running_loop()
        self._disks = Disks(parts.filesystem, parts.log_manager, parts.see_room)
        for rule, added_ms in self._rules:
            if rule.is_of_disks:
                self._begin_in_time(rule, self._age_s(added_ms))

    def close(self) -> None:
        """Let no rule act any more, and close the connections with requests that get no response: the broker stops."""
        self._parts = self._disks = self._loop = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.release()

    def add(self, **fields: Any) -> Rule:
        """Add a rule with the fields of Rule, and return it. Raises RuleError, also for a name that another rule has."""
        return self.put(rule_of(fields))

    def put(self, rule: Rule) -> Rule:
        """Add a rule, which is in force when this returns, and return it. Raises RuleError for a name that another rule has."""
        if rule.name in self.rules:
            raise RuleError(f"{rule.name}: another rule has this name")
        self._check(rule)
        self._rules = (*self._rules, (rule, self._clock.monotonic_ms()))
        if rule.is_of_disks:
            self._in_loop(lambda: self._begin_in_time(rule, 0.0))
        return rule

    def load(self, path: Path | str) -> list[Rule]:
        """Add the rules of a file of JSON or YAML, which is a list of them. Raises OSError, ValueError, and RuleError."""
        return [self.put(rule) for rule in rules_of_file(path)]

    def remove(self, name: str) -> None:
        """Remove a rule, which is in force no more when this returns. Raises KeyError for a name that none has."""
        rule = named(self.rules, name)
        self._rules = tuple(one for one in self._rules if one[0] is not rule)
        if rule.is_of_disks:
            self._in_loop(lambda: self._end(rule))
        for one in tuple(self._muted.pop(name, ())):
            one.get_loop().call_soon_threadsafe(_resolve, one)

    def clear(self) -> None:
        """Remove all rules."""
        for name in self.rules:
            self.remove(name)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules by name, in their order, with their counts."""
        return {rule.name: rule for rule, _ in self._rules}

    def release(self) -> None:
        """Close the connections with requests that get no response: the broker stops."""
        for one in tuple(self._hanging):
            one.cancel()
        while self._muted:
            for muted in tuple(self._muted.popitem()[1]):
                muted.cancel()

    def acting(self, handler: RequestHandler, name_of: NameOf) -> RequestHandler:
        """Return a handler that lets requests go wrong, and hands the others to `handler`."""

        def handle(connection: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
            taken = self._taken(connection, frame, name_of) if self._rules else None
            return handler(connection, frame) if taken is None else self._act(*taken, handler, connection, frame)

        return handle

    def _taken(self, connection: ConnectionContext, frame: memoryview, name_of: NameOf) -> tuple[Rule, SeenRequest] | None:
        """Return the rule that takes a request, and what it has seen of it; None if there is none."""
        request = seen(connection, frame, name_of)
        if request is None:
            return None
        found = (rule for rule, added_ms in self._rules if not rule.is_of_disks and rule.takes(request, self._age_s(added_ms)))
        rule = next(found, None)
        return None if rule is None else (rule, request)

    def _age_s(self, added_ms: int) -> float:
        return (self._clock.monotonic_ms() - added_ms) / 1000

    def _act(
        self, rule: Rule, seen_request: SeenRequest, handler: RequestHandler, connection: ConnectionContext, frame: memoryview
    ) -> EncodedResponse | Future[EncodedResponse]:
        if rule.action in IN_THE_STATE:
            return postponed(self._triggered(rule, _Request(frame), seen_request), handler, connection, frame)
        if rule.action in {"mute", "mute_s"}:
            return postponed(self._mute(rule), handler, connection, frame)
        if rule.when == AFTER or rule.action not in {"error", "drop", "close"}:
            request = _Request(frame)
            response = handler(connection, frame)
            return asyncio.get_running_loop().create_task(self._changed(rule, request, response))
        return _Request(frame).refused(rule) if rule.action == "error" else self._hanging_for(rule)

    async def _triggered(self, rule: Rule, request: _Request, seen_request: SeenRequest) -> None:
        from pybroker.faults.triggers import trigger  # noqa: PLC0415  it imports the coordinators

        if self._parts is None or not await trigger(rule, request.message, self._parts, seen_request.transactional_ids):
            rule.take_back()

    async def _mute(self, rule: Rule) -> None:
        """Wait until the rule is removed, or its time is over. Raises CancelledError to have the connection closed."""
        muted: Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._muted.setdefault(rule.name, set())
        waiting.add(muted)
        try:
            await asyncio.wait([muted], timeout=rule.mute_s)
            if muted.cancelled():
                raise asyncio.CancelledError
        finally:
            waiting.discard(muted)

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

    # Rules about disks

    def _check(self, rule: Rule) -> None:
        """Raise RuleError for a rule that can do nothing in this broker."""
        if rule.end_session and self._parts is not None and self._parts.membership.control is None:
            raise RuleError(f"{rule.name}: end_session is about a broker of a cluster, and this one is alone")

    def _begin_in_time(self, rule: Rule, age_s: float) -> None:
        """Let a rule about disks be in force now, or when its time has come."""
        if age_s < rule.after_s:
            self._at(rule, rule.after_s - age_s, lambda: self._begin_in_time(rule, rule.after_s))
        elif self._disks is not None and (rule.for_s is None or age_s < rule.after_s + rule.for_s):
            self._disks.begin(rule)
            if rule.for_s is not None:
                self._at(rule, rule.after_s + rule.for_s - age_s, lambda: self._end(rule))

    def _at(self, rule: Rule, delay_s: float, work: Callable[[], None]) -> None:
        self._timers[rule.name] = asyncio.get_running_loop().call_later(delay_s, work)

    def _end(self, rule: Rule) -> None:
        if (timer := self._timers.pop(rule.name, None)) is not None:
            timer.cancel()
        if self._disks is not None:
            self._disks.end(rule)

    def _in_loop(self, work: Callable[[], None]) -> None:
        """Do something in the broker's loop, and wait for it; nothing if no broker runs, because its start does it."""
        loop = self._loop
        if loop is None or not loop.is_running():
            return
        if asyncio._get_running_loop() is loop:
            work()
            return

        async def run() -> None:
            work()

        asyncio.run_coroutine_threadsafe(run(), loop).result(LOOP_S)


def named(rules: Mapping[str, Rule], name: str) -> Rule:
    """Return the rule of a name. Raises KeyError, which names those there are."""
    if name not in rules:
        raise KeyError(f"there is no rule {name}, but {', '.join(rules) or 'none at all'}")
    return rules[name]


def rules_of_file(path: Path | str) -> list[Rule]:
    """Return the rules of a file of JSON or YAML, which is a list of them. Raises OSError, ValueError, and RuleError."""
    content = document_of(Path(path))
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise ValueError(f"{path}: it must be a list of rules")
    rules = [rule_of(one) for one in content]
    if twice := [name for name, count in Counter(rule.name for rule in rules).items() if count > 1]:
        raise RuleError(f"{path}: several rules have the name {twice[0]}")
    return rules


def _resolve(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Request:
    """A request, decoded while its bytes are there.

    Attributes:
        message: the request itself, which keeps none of these bytes.
    """

    def __init__(self, frame: memoryview) -> None:
        header, at = decode_request_header(frame)
        self._version, self._correlation_id = header.api_version, header.correlation_id
        self._response = response_class(header.api_key)
        self.message: Any = decode(request_class(header.api_key), header.api_version, memoryview(bytearray(frame)), at)

    def refused(self, rule: Rule) -> bytes | None:
        """Return the response with the error of the rule for everything that the request names; None if it gets no response."""
        response = error_response(self.message, self._response, self._version, KafkaError(rule.code))
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
