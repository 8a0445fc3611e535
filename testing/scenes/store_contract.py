"""The promises of a metadata store as scenarios, which every store must keep: each is run on a new store.

@pytest.mark.parametrize("scenario", SCENARIOS)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import pytest

from pybroker.metadata.store.base import ABSENT, Change, Conflict, Session, SessionEndedError, Store, StoreError


async def session_of(store: Store) -> Session:
    return await store.open_session(ttl_ms=9_000, renew_ms=2_000)


async def of_many_commits_that_saw_the_same_revision_one_wins(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.commit(puts={"k": b"%d" % n}, compare={"k": ABSENT}) for n in range(20)))
    (revision,) = (outcome for outcome in outcomes if not isinstance(outcome, Conflict))
    assert outcomes.count(Conflict("k", ABSENT, revision)) == 19


async def watchers_have_seen_a_commit_when_it_returns_until_they_cancel(store: Store) -> None:
    seen: list[Change] = []
    watch = store.watch("a/", seen.extend)
    revision = await store.commit(puts={"a/1": b"x", "b": b"y"})
    assert isinstance(revision, int)
    assert seen == [Change("a/1", b"x", revision)]
    watch.cancel()
    watch.cancel()
    await store.commit(deletes=["a/1"])
    assert seen == [Change("a/1", b"x", revision)]


async def a_commit_continues_when_the_task_that_waits_is_cancelled(store: Store) -> None:
    waiting = asyncio.ensure_future(store.commit(puts={"k": b"v"}))
    await asyncio.sleep(0)  # it has begun
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await store.commit()
    assert (entry := await store.get("k")) is not None
    assert entry.value == b"v"


async def a_key_cannot_be_put_and_deleted_at_once_and_a_closed_store_is_an_error(store: Store) -> None:
    with pytest.raises(ValueError, match="both"):
        await store.commit(puts={"k": b""}, deletes=["k"])
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.commit(puts={"k": b""})


async def the_keys_of_a_session_are_deleted_in_one_commit_when_it_is_closed(store: Store) -> None:
    seen: list[Sequence[Change]] = []
    session, other = await session_of(store), await session_of(store)
    revision = await store.commit(puts={"mine/1": b"1", "mine/2": b"2"}, compare={"mine/1": ABSENT}, session=session)
    await store.commit(puts={"others": b"3"}, session=other)
    await store.commit(puts={"durable": b"4"})
    assert isinstance(revision, int)
    assert await store.commit(deletes=["mine/1"], compare={"mine/1": ABSENT}) == Conflict("mine/1", ABSENT, revision)
    store.watch("", seen.append)
    await session.close()
    assert session.ended.is_set()
    assert not other.ended.is_set()
    ((first, second),) = seen
    assert [first, second] == [("mine/1", None, second.revision), ("mine/2", None, second.revision)]
    assert revision < second.revision <= (await store.list()).revision
    assert [entry.key for entry in (await store.list()).entries] == ["durable", "others"]
    await session.close()
    await other.close()
    assert [entry.key for entry in (await store.list()).entries] == ["durable"]


async def a_session_that_has_ended_commits_nothing(store: Store) -> None:
    session = await session_of(store)
    await session.close()
    with pytest.raises(SessionEndedError, match="has ended"):
        await store.commit(puts={"k": b"v"}, deletes=["other"], session=session)
    assert (await store.list()).entries == ()


async def a_key_belongs_to_what_put_it_last(store: Store) -> None:
    first, second = await session_of(store), await session_of(store)
    await store.commit(puts={"taken over": b"", "durable": b"", "deleted": b""}, session=first)
    await store.commit(puts={"taken over": b""}, session=second)
    await store.commit(puts={"durable": b""})
    await store.commit(deletes=["deleted"])
    await store.commit(puts={"deleted": b""})
    await first.close()
    assert [entry.key for entry in (await store.list()).entries] == ["deleted", "durable", "taken over"]
    await second.close()
    assert [entry.key for entry in (await store.list()).entries] == ["deleted", "durable"]


async def a_session_is_valid_while_it_renews_itself(store: Store) -> None:
    session = await session_of(store)
    assert session.valid_until_s > asyncio.get_running_loop().time() + 8
    await session.close()


Scenario = Callable[[Store], Coroutine[Any, Any, None]]

SCENARIOS: Final[tuple[Scenario, ...]] = (
    of_many_commits_that_saw_the_same_revision_one_wins,
    watchers_have_seen_a_commit_when_it_returns_until_they_cancel,
    a_commit_continues_when_the_task_that_waits_is_cancelled,
    a_key_cannot_be_put_and_deleted_at_once_and_a_closed_store_is_an_error,
    the_keys_of_a_session_are_deleted_in_one_commit_when_it_is_closed,
    a_session_that_has_ended_commits_nothing,
    a_key_belongs_to_what_put_it_last,
    a_session_is_valid_while_it_renews_itself,
)
