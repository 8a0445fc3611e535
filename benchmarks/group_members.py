"""Plays members of groups without clients: each is a coroutine and a connection, so that one process has hundreds.

Members do what consumers do but read nothing. They join, the leader shares out the partitions, they send heartbeats, join again
when the broker asks them to, and give up what they owned before that. `Fellowship` watches over the members: in one generation no
partition may have two owners, and at rest every partition has exactly one.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

from testing.wire import raw
from testing.wire import raw_groups as groups
from testing.wire.raw_groups import Identity

SESSION_MS = 6_000  # the least that brokers allow by default
REBALANCE_MS = 60_000
FORGET = (groups.UNKNOWN_MEMBER_ID, groups.FENCED_MEMBER_EPOCH)
REST_S = 120


class Fellowship:
    """All members of one group, dead ones too. Raises AssertionError in the member that finds its partition taken."""

    def __init__(self, topic: str, partition_count: int) -> None:
        self.topic = topic
        self.partition_count = partition_count
        self.generation = 0  # the highest that any member has got
        self._owners: dict[tuple[int, int], Member] = {}  # by generation and partition
        self._changed = asyncio.Event()

    def claim(self, member: Member, generation: int, partitions: frozenset[int]) -> None:
        """Let `member` own these and no others in the generation, which is 0 where partitions belong to none (KIP-848)."""
        self.release(member)
        for partition in partitions:
            owner = self._owners.get((generation, partition))
            assert owner is None, f"partition {partition} has two owners in {generation}: {owner} and {member}"
            self._owners[generation, partition] = member
        member.owned, member.owned_in = partitions, generation
        self._changed.set()

    def release(self, member: Member) -> None:
        for partition in member.owned:
            del self._owners[member.owned_in, partition]
        member.owned = frozenset()
        self._changed.set()

    def reached(self, generation: int) -> None:
        self.generation = max(self.generation, generation)
        self._changed.set()

    def is_at_rest(self, living: Sequence[Member]) -> bool:
        """Return whether the members that live are in one generation and own everything, each partition once."""
        if len({member.generation for member in living}) > 1 or not all(member.is_settled for member in living):
            return False
        owned = sorted(partition for member in living for partition in member.owned)
        return owned == list(range(self.partition_count)) if living else True

    async def rest(self, living: Sequence[Member], timeout_s: float = REST_S) -> None:
        """Wait until the members are at rest. Raises the error of a member that has failed."""
        async with asyncio.timeout(timeout_s):
            while not self.is_at_rest(living):
                for member in living:
                    member.raise_error()
                self._changed.clear()
                await self._changed.wait()


class Member(ABC):
    """A member: it begins with `connect` and `start`, ends with `leave` or `die`, and can then begin again as a new member."""

    def __init__(
        self, fellowship: Fellowship, bootstrap: str, group: str, number: int, *, beat_s: float, session_ms: int = SESSION_MS
    ) -> None:
        self.number = number
        self.owned: frozenset[int] = frozenset()
        self.owned_in = 0
        self.generation = -1
        self.is_settled = False  # has its assignment and knows of no rebalance
        self._fellowship = fellowship
        self._group, self._beat_s, self._session_ms = group, beat_s, session_ms
        self._address = bootstrap.rpartition(":")
        self._task: asyncio.Task[None] | None = None
        self._correlation_id = 0

    def __repr__(self) -> str:
        return f"member {self.number} in {self.generation}"

    @property
    def is_alive(self) -> bool:
        return self._task is not None

    def raise_error(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()

    async def connect(self) -> None:
        host, _, port = self._address
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    def start(self) -> None:
        self._begin()
        self._task = asyncio.create_task(self._run())

    def die(self) -> None:
        """End without a word to the broker, and break the connection off."""
        assert self._task is not None
        self._task.cancel()
        self._task = None
        self._writer.transport.abort()
        self._fellowship.release(self)
        self.is_settled, self.generation = False, -1

    async def leave(self) -> None:
        """Leave the group on another connection, whatever the member was waiting for."""
        goodbye = self._goodbye()
        self.die()
        if goodbye is not None:
            await self.connect()
            await self._exchange(goodbye)
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _exchange(self, frame: bytes) -> bytes:
        """Send a whole request; return the response without its size and correlation id."""
        self._writer.write(frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return (await self._reader.readexactly(size))[4:]

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    async def _run(self) -> None: ...

    @abstractmethod
    def _goodbye(self) -> bytes | None: ...


class ClassicMember(Member):
    """A member of the classic protocol, and eager: it owns nothing while it joins."""

    def _begin(self) -> None:
        self._id = ""

    async def _call(self, key: int, body: bytes) -> bytes:
        return await self._exchange(raw.request(key, groups.VERSIONS[key], body))

    @property
    def _identity(self) -> Identity:
        return Identity(self._group, self.generation, self._id)

    def _goodbye(self) -> bytes | None:
        if not self._id:
            return None
        return raw.request(groups.LEAVE_GROUP, groups.VERSIONS[groups.LEAVE_GROUP], groups.leave_body(self._identity))

    async def _run(self) -> None:
        while True:
            self.is_settled = False
            self._fellowship.release(self)
            assignments = await self._join()
            error, assignment = groups.parse_sync(
                await self._call(groups.SYNC_GROUP, groups.sync_body(self._identity, assignments))
            )
            if not error:
                owned = frozenset(struct.unpack(f">{len(assignment) // 4}i", assignment))
                self.is_settled = True
                self._fellowship.claim(self, self.generation, owned)
                error = await self._beat()
            if error in FORGET:
                self._id = ""
            elif error in groups.COME_AGAIN:
                await asyncio.sleep(self._beat_s)

    async def _join(self) -> dict[str, bytes]:
        """Join until there is a generation; return what this member assigns if it is the leader, otherwise nothing."""
        metadata = groups.subscription([self._fellowship.topic])
        while True:
            body = groups.join_body(self._group, self._id, metadata, session_ms=self._session_ms, rebalance_ms=REBALANCE_MS)
            joined = groups.parse_join(await self._call(groups.JOIN_GROUP, body))
            if joined.error in (0, groups.MEMBER_ID_REQUIRED):
                self._id = joined.member
            elif joined.error == groups.UNKNOWN_MEMBER_ID:
                self._id = ""
            elif joined.error in groups.COME_AGAIN:
                await asyncio.sleep(self._beat_s)
            else:
                assert joined.error == groups.REBALANCING, joined
            if not joined.error:
                assert joined.generation >= self.generation, "a generation never comes again"  # the present one may
                self.generation = joined.generation
                self._fellowship.reached(joined.generation)
                return self._share(joined.members)

    def _share(self, members: list[str]) -> dict[str, bytes]:
        count = self._fellowship.partition_count
        shares = {member: range(first, count, len(members)) for first, member in enumerate(members)}
        return {member: struct.pack(f">{len(share)}i", *share) for member, share in shares.items()}

    async def _beat(self) -> int:
        """Send heartbeats until there is an error, and return the error."""
        while True:
            await asyncio.sleep(self._beat_s)
            error = groups.parse_heartbeat(await self._call(groups.HEARTBEAT, groups.heartbeat_body(self._identity)))
            if error:
                return error


class ConsumerMember(Member):
    """A member of KIP-848's protocol: it gives partitions up as soon as it must. Partitions are those of the only topic."""

    def _begin(self) -> None:
        self._id, self._epoch = "", 0

    async def _call(self, body: bytes) -> groups.Beaten:
        return groups.parse_consumer_heartbeat(await self._exchange(self._frame(body)))

    def _frame(self, body: bytes) -> bytes:
        return groups.flexible_request(groups.CONSUMER_GROUP_HEARTBEAT, 0, body, 1)

    def _goodbye(self) -> bytes | None:
        return self._frame(groups.consumer_heartbeat_body(self._group, self._id, -1)) if self._id else None

    async def _run(self) -> None:
        is_whole, owned = True, None  # the first request has everything, one after a change what is owned
        while True:
            body = groups.consumer_heartbeat_body(
                self._group, self._id, self._epoch,
                rebalance_ms=REBALANCE_MS if is_whole else -1, topics=[self._fellowship.topic] if is_whole else None,
                owned={} if is_whole else owned,
            )  # fmt: skip
            beaten = await self._call(body)
            is_whole, owned = False, None
            if beaten.error in FORGET:
                self._fellowship.release(self)
                self.is_settled = False
                is_whole, self._epoch = True, 0
                if beaten.error == groups.UNKNOWN_MEMBER_ID:
                    self._id = ""
            elif beaten.error:
                assert beaten.error in groups.COME_AGAIN, beaten
            else:
                self._id, self._epoch = beaten.member, beaten.epoch
                self.generation, self.is_settled = beaten.epoch, True
                self._fellowship.reached(beaten.epoch)
                if beaten.assignment is not None:
                    owned = beaten.assignment
                    partitions = frozenset(p for of_topic in owned.values() for p in of_topic)
                    self._fellowship.claim(self, 0, partitions)
            if owned is None:  # otherwise it reports at once what it owns now
                await asyncio.sleep(self._beat_s)
