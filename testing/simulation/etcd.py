"""A member of etcd in memory, behind a `Gateway` that can lose what is sent: the requests that the metadata store uses, as etcd
3.4 responds to them.

    etcd = SimulatedEtcd()
    store = EtcdStore(etcd.gateway(), "namespace", "owner")
    etcd.plan("lost", "late")        the next call is not carried out; the one after it later, when the store has given it up
    etcd.break_watches()             every watch ends, and must be resumed
    etcd.compact()                   nothing of the past is kept, so a watch that was broken cannot be resumed
    etcd.end_leases()                every lease ends, as if it had not been renewed in time
    etcd.delay_s = 1                 each call takes a second until it is carried out, and another one until its response is there
    gateway.is_cut = True            no call of this gateway reaches the member

A lease ends by the loop's clock.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final

from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.gateway import CALL_S, Gateway, LostError, NotSentError, RefusedError

Message = dict[str, Any]

FAULTS: Final = ("not sent", "lost", "response lost", "late")
OUT_OF_RANGE: Final = 11
NOT_FOUND: Final = 5


class SimulatedEtcd:
    """The keys with their history. Operations are atomic; a call gives the loop back before and after."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self.delay_s = 0.0
        self.watches_are_refused_with = ""
        self._keys: dict[bytes, tuple[bytes, int]] = {}
        self._history: list[tuple[int, list[Message]]] = []
        self._plan: deque[str] = deque()
        self._late: list[Callable[[], object]] = []
        self._watches: list[_Deliveries] = []
        self._leases: dict[str, _Lease] = {}
        self._lease_of: dict[bytes, str] = {}
        self._last_lease = 0

    def contents(self) -> dict[str, tuple[bytes, int]]:
        """Return the value and the revision of every key."""
        return {key.decode(): found for key, found in self._keys.items()}

    def has(self, key: str) -> bool:
        """Return whether a key exists."""
        return key.encode() in self._keys

    def changes(self) -> Iterator[tuple[str, bytes | None, int]]:
        """Yield each change since the last compaction: the key, its value or None if it was deleted, and the revision."""
        for revision, events in self._history:
            for event in events:
                item = event["kv"]
                is_deleted = event.get("type") == "DELETE"
                yield b64decode(item["key"]).decode(), None if is_deleted else b64decode(item["value"]), revision

    def gateway(self) -> SimulatedGateway:
        """Return what a store calls."""
        return SimulatedGateway(self)

    def plan(self, *faults: str) -> None:
        """Let the next calls fail, one after the other; `ok` is a call that does not."""
        self._plan.extend(faults)

    def plan_nothing(self) -> None:
        """Let all further calls succeed."""
        self._plan.clear()

    @property
    def has_plan(self) -> bool:
        """Whether calls are left of which something is planned."""
        return bool(self._plan)

    def break_watches(self) -> None:
        """End every watch, as when a connection breaks."""
        for deliveries in self._watches:
            deliveries.put(None)

    def compact(self) -> None:
        """Forget the history."""
        self.compacted = self.revision
        self._history = []

    def carry_out_late(self) -> None:
        """Carry out what was given up meanwhile."""
        late, self._late = self._late, []
        for call in late:
            call()

    def end_leases(self) -> None:
        """End every lease."""
        for lease_id in tuple(self._leases):
            self._end_lease(lease_id)

    async def call(self, path: str, message: Message) -> Message:
        """Respond to a call, or fail as planned."""
        await asyncio.sleep(self.delay_s)
        fault = self._plan.popleft() if self._plan else "ok"
        if fault == "not sent":
            raise NotSentError("planned")
        if fault == "late":
            self._late.append(lambda: self._respond(path, message))
        if fault in {"lost", "late"}:
            raise LostError("planned")
        response = self._respond(path, message)
        await asyncio.sleep(self.delay_s)
        if fault == "response lost":
            raise LostError("planned")
        return response

    async def watch(self, message: Message) -> AsyncGenerator[Message]:
        """Deliver the changes of a watch."""
        request = message["create_request"]
        start, first, end = int(request["start_revision"]), b64decode(request["key"]), b64decode(request["range_end"])
        await asyncio.sleep(0)
        if self.watches_are_refused_with:
            yield self._headed({"created": True, "canceled": True, "cancel_reason": self.watches_are_refused_with})
            return
        yield self._headed({"created": True})
        if start <= self.compacted:
            yield self._headed({"canceled": True, "compact_revision": str(self.compacted)})
            return
        deliveries = _Deliveries()
        for revision, events in self._history:
            if revision >= start:
                deliveries.put(self._headed({"events": events}))
        self._watches.append(deliveries)
        try:
            while (delivered := await deliveries.next()) is not None:
                events = [event for event in delivered["events"] if first <= b64decode(event["kv"]["key"]) < end]
                if events:
                    yield {**delivered, "events": events}
            raise LostError("the watch was broken")
        finally:
            self._watches.remove(deliveries)

    def _respond(self, path: str, message: Message) -> Message:
        if path == messages.RANGE:
            return self._headed(self._range(message))
        if path == messages.COMPACT:
            self.compact()
            return self._headed({})
        if path in {messages.LEASE_GRANT, messages.LEASE_RENEWAL, messages.LEASE_END}:
            return self._headed(self._lease_call(path, message))
        transaction = message if path == messages.TXN else messages.txn([], [{"request_put": message}], [])
        if not self._leases.keys() >= self._leases_in(transaction):
            raise RefusedError(NOT_FOUND, "etcdserver: requested lease not found")
        events: list[Message] = []
        response = self._txn(transaction, events)
        self._publish(events)
        return self._headed(response)

    def _publish(self, events: list[Message]) -> None:
        if events:
            self.revision += 1
            self._history.append((self.revision, events))
            for deliveries in self._watches:
                deliveries.put(self._headed({"events": events}))

    def _lease_call(self, path: str, message: Message) -> Message:
        loop = asyncio.get_running_loop()
        if path == messages.LEASE_GRANT:
            self._last_lease += 1
            lease_id, lease = str(self._last_lease), _Lease(int(message["TTL"]))
            self._leases[lease_id] = lease
        else:
            lease_id, known = message["ID"], self._leases.get(message["ID"])
            if known is None and path == messages.LEASE_END:
                raise RefusedError(NOT_FOUND, "etcdserver: requested lease not found")
            if known is None:
                return {"ID": lease_id}
            lease = known
        if path == messages.LEASE_END:
            self._end_lease(lease_id)
            return {}
        lease.let_live(loop, lambda: self._end_lease(lease_id))
        return {"ID": lease_id, "TTL": str(lease.ttl_s)}

    def _end_lease(self, lease_id: str) -> None:
        self._leases.pop(lease_id).forget()
        events: list[Message] = []
        for key in sorted(key for key, of in self._lease_of.items() if of == lease_id):
            self._operation({"request_delete_range": {"key": b64encode(key).decode()}}, events)
        self._publish(events)

    def _leases_in(self, transaction: Message) -> set[str]:
        """Return the leases of the keys that a transaction is going to put."""
        found: set[str] = set()
        for operation in transaction["success" if all(map(self._holds, transaction["compare"])) else "failure"]:
            if "request_txn" in operation:
                found |= self._leases_in(operation["request_txn"])
            elif "request_put" in operation:
                found.add(operation["request_put"].get("lease", messages.NO_LEASE))
        return found - {messages.NO_LEASE}

    def _txn(self, transaction: Message, events: list[Message]) -> Message:
        holds = all(map(self._holds, transaction["compare"]))
        responses = [self._operation(one, events) for one in transaction["success" if holds else "failure"]]
        return {"succeeded": holds, "responses": responses} if holds else {"responses": responses}

    def _operation(self, operation: Message, events: list[Message]) -> Message:
        ((kind, request),) = operation.items()
        if kind == "request_txn":
            return {"response_txn": self._txn(request, events)}
        if kind == "request_range":
            return {"response_range": self._range(request)}
        key, revision = b64decode(request["key"]), self.revision + 1
        self._lease_of.pop(key, None)
        if kind == "request_put":
            if (lease_id := request.get("lease", messages.NO_LEASE)) != messages.NO_LEASE:
                self._lease_of[key] = lease_id
            self._keys[key] = b64decode(request["value"]), revision
            events.append({"kv": _found(key, *self._keys[key])})
            return {"response_put": {}}
        if self._keys.pop(key, None) is not None:
            events.append({"type": "DELETE", "kv": {"key": request["key"], "mod_revision": str(revision)}})
        return {"response_delete_range": {}}

    def _holds(self, comparison: Message) -> bool:
        found = self._keys.get(b64decode(comparison["key"]))
        if comparison["target"] == "MOD":
            return int(comparison["mod_revision"]) == (0 if found is None else found[1])
        return found is not None and found[0] == b64decode(comparison["value"])

    def _range(self, request: Message) -> Message:
        key = b64decode(request["key"])
        end = b64decode(request.get("range_end", "")) or key + b"\0"
        if 0 < int(request.get("revision", 0)) < self.compacted:
            raise RefusedError(OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        found = sorted((name, *at) for name, at in self._keys.items() if key <= name < end)
        limit = int(request.get("limit", 0)) or len(found)
        response: Message = {"kvs": [_found(*one) for one in found[:limit]]}
        return response | {"more": True} if len(found) > limit else response

    def _headed(self, response: Message) -> Message:
        return {"header": {"revision": str(self.revision)}, **response}


class _Lease:
    """A lease, which ends unless it is renewed in time."""

    def __init__(self, ttl_s: int) -> None:
        self.ttl_s = ttl_s
        self._timer: asyncio.TimerHandle | None = None

    def let_live(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        self.forget()
        self._timer = loop.call_later(self.ttl_s, end)

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class SimulatedGateway(Gateway):
    """The gateway of a simulated member."""

    def __init__(self, etcd: SimulatedEtcd) -> None:
        super().__init__([])
        self._etcd = etcd
        self._may_watch = True
        self.is_cut = False

    def hold_watches(self) -> None:
        """Begin no watch before `release_watches`."""
        self._may_watch = False

    def release_watches(self) -> None:
        """Let watches begin again."""
        self._may_watch = True

    async def call(self, path: str, message: Message, *, within_s: float = CALL_S) -> Message:
        """Call the member."""
        if self.is_cut:
            raise NotSentError("the gateway is cut off")
        try:
            async with asyncio.timeout(within_s):
                return await self._etcd.call(path, message)
        except TimeoutError:
            raise LostError("no response in time") from None

    async def stream(self, path: str, message: Message) -> AsyncGenerator[Message]:
        """Watch the member."""
        assert path == messages.WATCH
        if not self._may_watch:
            raise NotSentError("the watches are held")
        async for one in self._etcd.watch(message):
            yield one


class _Deliveries:
    """The messages that one watch has not delivered yet; None ends it."""

    def __init__(self) -> None:
        self._messages: deque[Message | None] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: Message | None) -> None:
        self._messages.append(message)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next(self) -> Message | None:
        while not self._messages:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._messages.popleft()


def _found(key: bytes, value: bytes, revision: int) -> Message:
    return {"key": b64encode(key).decode(), "value": b64encode(value).decode(), "mod_revision": str(revision)}
