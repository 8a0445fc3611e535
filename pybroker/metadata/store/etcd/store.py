"""A metadata store in etcd, which several brokers can share.

Layout
    NAMESPACE/entries/KEY    an entry of the store
    NAMESPACE/marks/OWNER    the mark of the owner's last commit (see `marks`)

Revisions are etcd's. They grow from commit to commit, but not by one, because other users of etcd have revisions, too. A commit
is one transaction of etcd. It returns when the store's own watch has delivered it. That takes no longer, because etcd sends both
at once.

Sessions
    A session is a lease of etcd. When etcd elects a leader, each lease begins its time again, which only makes it longer. The
    mark belongs to no session.

Outcomes
    A request that was not sent is tried for `patience_s`, and then the commit fails. A request whose response was lost is sent
    again, because its mark lets it happen only once; if no member responds in time, the outcome is not known
    (`OutcomeUnknownError`), and the next commit finds it out, or makes sure that it never happens.

History
    etcd keeps every old value until someone compacts it. Each store compacts what is older than `HISTORY_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from pybroker.metadata.store.base import (
    ABSENT,
    Change,
    Conflict,
    Entry,
    Limits,
    Listing,
    OutcomeUnknownError,
    Session,
    SessionEndedError,
    Store,
    StoreError,
    UnreachableError,
)
from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.access import Access, access_of
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.following import COMPACTED, Following, list_all
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, Message, NotSentError, RefusedError
from pybroker.metadata.store.etcd.marks import Mark, decoded
from pybroker.metadata.store.renewal import RenewedSession

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.store.etcd.messages import Item
    from pybroker.metadata.store.renewal import Lease

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

LIMITS: Final = Limits(operations_max=126, bytes_max=1_400_000)
"""etcd's own limits are 128 operations, of which the mark takes two, and 1.5 MiB."""
PATIENCE_S: Final = 10.0
HASTE_S: Final = 1.0
"""The patience while this process stops: without a majority of the members, no call can succeed."""
PAUSE_S: Final = 0.1
HISTORY_S: Final = 300.0
NO_RESPONSE: Final = "etcd does not respond"
UNKNOWN_OUTCOME: Final = (
    "etcd was asked for a change of the metadata and sent no response ({}), so it is not known whether the change was made. This "
    "broker finds that out by the mark of the change, or makes sure that it never happens, before it makes another one. To do: "
    "look whether the change is there, and ask for it again if it is not"
)
NOT_FOUND: Final = 5
"""gRPC's code with which etcd refuses a request with a lease that it does not know."""


class _Outcome(NamedTuple):
    """The outcome of a commit; `is_done`: its comparisons held."""

    is_done: bool
    revision: int


class EtcdStore(Store):
    """A store in etcd. `owner` is unique among those that use the namespace at a time; the last one that starts has it."""

    limits = LIMITS

    def __init__(
        self,
        gateway: Gateway,
        namespace: str,
        owner: str,
        *,
        on_taken_over: Callable[[], object] = lambda: None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        super().__init__()
        self._gateway, self._patience_s, self._on_taken_over = gateway, patience_s, on_taken_over
        self._entries, self._mark_key = f"{namespace}/entries/", f"{namespace}/marks/{owner}"
        self._owner, self._process = owner, uuid.uuid4().hex
        self._number = 0
        self._mark = b""  # the mark that is there, as far as is known
        self._following = Following(gateway, f"{namespace}/", self._deliver)
        self._compaction: asyncio.Task[None] | None = None
        self._sessions: list[RenewedSession] = []
        self._waits: set[asyncio.Timeout] = set()
        self._is_hasty = False

    @classmethod
    def at(cls, urls: str, owner: str, on_taken_over: Callable[[], object], config: BrokerConfig | None = None) -> Self:
        """Return the store at `URL[,URL...]`, which connects when it is first used. Raises StoreError for a wrong address, and
        for settings of a user or of certificates that cannot work.
        """
        address = parse(urls)
        access = Access() if config is None else access_of(config, address.endpoints)
        return cls(Gateway(address.endpoints, access), address.namespace, owner, on_taken_over=on_taken_over)

    def hasten(self) -> None:
        """Wait for HASTE_S at most whenever etcd does not respond, and be silent about that, from now on."""
        self._is_hasty = True
        self._following.level = logging.DEBUG
        for session in self._sessions:
            session.level = logging.DEBUG
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time() + HASTE_S)

    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""
        response = await self._patient(lambda: self._gateway.call(messages.RANGE, messages.read(self._entries + key)))
        return next((self._entry(item) for item in messages.items_of(response)), None)

    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""
        async with self._following.held:
            items, revision = await self._patient(lambda: list_all(self._gateway, self._entries + prefix))
        return Listing(tuple(map(self._entry, items)), revision)

    async def open_session(self, *, ttl_ms: int, renew_ms: int) -> Session:
        """Open a session with a lease of etcd, which has whole seconds, and at least two. Raises StoreError."""
        time, request = asyncio.get_running_loop().time, messages.new_lease(math.ceil(ttl_ms / 1000))

        async def granted() -> tuple[float, Message]:
            return time(), await self._gateway.call(messages.LEASE_GRANT, request)

        self._check_open()
        sent_s, response = await self._patient(granted)
        lease, renew_s = messages.lease_of(response), renew_ms / 1000
        session = RenewedSession(lease, partial(self._renew, within_s=renew_s), self._end_session, sent_s=sent_s, renew_s=renew_s)
        self._sessions = [session, *(one for one in self._sessions if not one.ended.is_set())]
        return session

    async def _renew(self, session: RenewedSession, *, within_s: float) -> Lease:
        """Renew a lease. A member that does not respond is given up soon enough to ask another one."""
        try:
            request = messages.lease(session.lease_id)
            return messages.lease_of(await self._gateway.call(messages.LEASE_RENEWAL, request, within_s=within_s))
        except (NotSentError, LostError) as error:
            raise UnreachableError(str(error)) from error

    async def _end_session(self, session: RenewedSession) -> None:
        await self._uninterrupted.run(self._session_ended(session))

    async def _session_ended(self, session: RenewedSession) -> None:
        """End the lease, and return when the watch has delivered that. Raises StoreError."""
        async with self._one_commit:
            session.mark_ended()
            await self._patient(lambda: self._end_lease(session.lease_id))
            await self._commit({}, set(), {}, None)  # the watch delivers the end of the lease before this

    async def _end_lease(self, lease_id: str) -> None:
        """End a lease, if etcd knows it. Raises as `Gateway.call`."""
        try:
            await self._gateway.call(messages.LEASE_END, messages.lease(lease_id))
        except RefusedError as error:
            if error.code != NOT_FOUND:
                raise

    async def _commit(
        self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int], session: Session | None
    ) -> int | Conflict:
        self.limits.check(puts, deletes, compare)
        await self._begin()
        self._number += 1
        done, refused = (Mark(self._process, self._number, is_done=is_done).encoded() for is_done in (True, False))
        entries = self._entries
        assert session is None or isinstance(session, RenewedSession), "a session of another store"
        lease_id = messages.NO_LEASE if session is None else session.lease_id
        put_there, deleted_there = {entries + key: value for key, value in puts.items()}, [entries + key for key in deletes]
        changes = messages.changes(put_there, deleted_there, lease_id)
        commit = messages.txn(
            [messages.has_revision(entries + key, revision) for key, revision in compare.items()],
            [messages.put(self._mark_key, done), *changes],
            [messages.put(self._mark_key, refused)],
        )
        try:
            outcome = await self._carry_out(commit, done, refused)
        except RefusedError as error:
            if session is None or error.code != NOT_FOUND:
                raise
            session.mark_ended("etcd does not know it any more")
            raise SessionEndedError(str(error)) from error
        try:
            async with self._hurried():
                await self._following.reached(outcome.revision)
        except TimeoutError as error:
            raise OutcomeUnknownError("etcd made a change of the metadata, but its watch does not deliver it") from error
        return outcome.revision if outcome.is_done else await self._conflict(compare)

    async def _release(self) -> None:
        for session in self._sessions:
            session.mark_ended("this process stops")  # etcd ends it when its time is over, as after the end of the process
        await self._following.close()
        if self._compaction is not None:
            self._compaction.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._compaction
        self._gateway.close()

    async def _carry_out(self, commit: Message, done: bytes, refused: bytes) -> _Outcome:
        """Carry out a transaction once, which puts one of the two marks. Raises StoreError."""
        while True:
            marked = messages.txn(
                [messages.has_value(self._mark_key, self._mark)],
                [messages.nested(commit)],
                [messages.read_in_txn(self._mark_key)],
            )
            response = await self._patient(partial(self._gateway.call, messages.TXN, marked), is_change=True)
            if messages.succeeded(response):
                is_done = messages.succeeded(messages.nested_response(response))
                self._mark = done if is_done else refused
                return _Outcome(is_done, messages.revision_of(response))
            mark = self._own(messages.read_by_txn(response))
            self._mark = mark.value or b""
            if self._mark in {done, refused}:  # an earlier attempt has come through
                return _Outcome(self._mark == done, mark.revision)
            # Otherwise a commit before, whose outcome was not known, has come through, and this one is tried behind it.

    def _own(self, mark: Item | None) -> Item:
        """Return the mark that was read, if this process wrote it. Raises StoreError."""
        if mark is None or mark.value is None or self._is_foreign(mark.value):
            raise StoreError(f"another process is {self._owner} by now, and changes the metadata in etcd in place of this one")
        return mark

    def _is_foreign(self, value: bytes) -> bool:
        mark = decoded(value)
        return mark is None or mark.process != self._process

    async def _conflict(self, compare: Mapping[str, int]) -> Conflict:
        """Return a key that is not at the revision that a commit has compared it with."""
        for key, expected in compare.items():
            entry = await self.get(key)
            actual = ABSENT if entry is None else entry.revision
            if actual != expected:
                return Conflict(key, expected, actual)
        return Conflict(key, expected, actual)  # it was absent again by now

    async def _begin(self) -> None:
        """Take the owner's mark, and follow the changes from now on; once."""
        if self._mark:
            return
        mark = Mark(self._process, 0, is_done=True).encoded()
        await self._patient(lambda: self._gateway.call(messages.PUT, messages.put_alone(self._mark_key, mark)))
        await self._patient(self._following.begin)
        self._compaction = asyncio.create_task(self._compact())
        self._mark = mark

    async def _compact(self) -> None:
        while True:
            revision = self._following.revision
            await asyncio.sleep(HISTORY_S)
            try:
                await self._gateway.call(messages.COMPACT, {"revision": str(revision)})
            except RefusedError as error:
                if error.code != COMPACTED:  # by another store
                    logger.warning(
                        "The history in etcd was not compacted, which is tried again in %g s: %s", HISTORY_S, error.text
                    )
            except (NotSentError, LostError):
                pass  # the next time will do

    async def _patient(self, call: Callable[[], Awaitable[Result]], *, is_change: bool = False) -> Result:
        """Return what a call returns that may be repeated. Raises StoreError."""
        time = asyncio.get_running_loop().time
        end, failure, may_be_done, is_under_way, has_members = time() + self._patience_s, NO_RESPONSE, False, False, False
        try:
            async with self._hurried():
                while True:
                    is_under_way = True
                    try:
                        return await call()
                    except NotSentError as error:
                        failure, has_members = str(error), True
                    except LostError as error:
                        failure, may_be_done, has_members = str(error), is_change, False
                    is_under_way = False
                    if time() >= end:
                        break
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            may_be_done = may_be_done or (is_change and is_under_way)
        if may_be_done:
            raise OutcomeUnknownError(UNKNOWN_OUTCOME.format(failure))
        if has_members or self._is_hasty:
            raise UnreachableError(failure)
        raise UnreachableError(f"{failure} ({await self._gateway.described()})")

    @contextlib.asynccontextmanager
    async def _hurried(self) -> AsyncIterator[None]:
        """Raise TimeoutError in the block if that takes longer than HASTE_S while this process stops."""
        async with asyncio.timeout(HASTE_S if self._is_hasty else None) as wait:
            self._waits.add(wait)
            try:
                yield
            finally:
                self._waits.discard(wait)

    def _entry(self, item: Item) -> Entry:
        assert item.value is not None, "only a watch delivers deletions"
        return Entry(item.key.removeprefix(self._entries), item.value, item.revision)

    def _deliver(self, items: Sequence[Item]) -> None:
        for item in items:
            if item.key == self._mark_key and item.value is not None and self._is_foreign(item.value):
                logger.error(
                    "Another process is %s by now, and changes the metadata in etcd in place of this one, which stops: give each "
                    "broker of a cluster a node.id of its own",
                    self._owner,
                )
                self._on_taken_over()
        self._call_watches(
            [
                Change(item.key.removeprefix(self._entries), item.value, item.revision)
                for item in items
                if item.key.startswith(self._entries)
            ]
        )
