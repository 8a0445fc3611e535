"""Every store against the simplest thing that could be right: a dictionary with a counter."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import ABSENT, Change, Conflict, Entry, Store, StoreError
from pybroker.metadata.store.etcd.store import EtcdStore
from pybroker.metadata.store.shared.server import StoreServer
from testing.scenes.store_contract import SCENARIOS, Scenario
from testing.simulation.etcd import SimulatedEtcd

KEYS = ["a", "a/1", "a/2", "b", "topics/t", "topics/t2"]
KINDS = ["memory", "sqlite", "etcd", "shared"]
KINDS_WITHOUT_LIMITS = ["memory", "sqlite"]


@contextlib.asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Path]:
    """Serve the sqlite store of a directory on a socket, whose path is yielded."""
    async with closing(open_store(f"sqlite:{directory / 'metadata.db'}")) as store:
        server, path = StoreServer(store), directory / "metadata.socket"
        await server.listen(path)
        yield path
        await server.close()


@contextlib.asynccontextmanager
async def closing(store: Store) -> AsyncIterator[Store]:
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def opened(kind: str, directory: Path, etcd: SimulatedEtcd | None = None) -> AsyncIterator[Store]:
    store: Store
    if kind == "shared":
        async with served(directory) as path, closing(open_store(f"unix:{path}")) as store:
            yield store
        return
    if kind == "etcd":
        store = EtcdStore((etcd or SimulatedEtcd()).gateway(), "test", "broker-1")
    else:
        store = open_store("memory:" if kind == "memory" else f"sqlite:{directory / 'metadata.db'}")
    async with closing(store):
        yield store


def drive(kind: str, scenario: Scenario) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with opened(kind, Path(directory)) as store:
                await scenario(store)

    asyncio.run(run())


@dataclass
class Model:
    entries: dict[str, Entry] = field(default_factory=dict)
    revision: int = 0

    def conflict(self, compare: Mapping[str, int]) -> Conflict | None:
        for key, expected in compare.items():
            actual = self.entries[key].revision if key in self.entries else ABSENT
            if actual != expected:
                return Conflict(key, expected, actual)
        return None

    def commit(self, puts: Mapping[str, bytes], deletes: set[str], *, revision: int) -> list[tuple[str, bytes | None, int]]:
        """Do what a commit did that has the revision, and return the changes."""
        existing = deletes & self.entries.keys()
        assert revision > self.revision or not (puts or existing)
        self.revision = revision
        self.entries |= {key: Entry(key, value, revision) for key, value in puts.items()}
        for key in existing:
            del self.entries[key]
        return sorted([*((key, value, revision) for key, value in puts.items()), *((key, None, revision) for key in existing)])

    def list(self, prefix: str) -> tuple[Entry, ...]:
        return tuple(sorted(e for e in self.entries.values() if e.key.startswith(prefix)))


@dataclass(frozen=True)
class Commit:
    puts: dict[str, bytes]
    deletes: set[str]
    compare: dict[str, int]  # how far from the current revision: 0 compares well


keys = st.sampled_from(KEYS)
commits = st.builds(
    Commit,
    puts=st.dictionaries(keys, st.binary(max_size=8), max_size=3),
    deletes=st.sets(keys, max_size=3),
    compare=st.dictionaries(keys, st.sampled_from([0, 0, 0, 1, -1]), max_size=2),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(steps=st.lists(commits | st.just("reopen"), max_size=12), prefix=st.sampled_from(["", "a", "a/", "topics/", "c"]))
def test_a_store_is_a_dictionary_with_revisions(kind: str, steps: list[Commit | str], prefix: str) -> None:
    async def run(directory: Path) -> None:
        model, etcd = Model(), SimulatedEtcd()
        seen: list[Sequence[Change]] = []
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(opened(kind, directory, etcd))
            store.watch(prefix, seen.append)
            for step in steps:
                if isinstance(step, str):
                    if kind != "memory":  # what is in memory does not outlive it
                        await stack.aclose()
                        store = await stack.enter_async_context(opened(kind, directory, etcd))
                        store.watch(prefix, seen.append)
                    continue
                deletes = step.deletes - step.puts.keys()
                before = dict(model.entries)
                compare = {key: before[key].revision + off if key in before else off for key, off in step.compare.items()}
                seen.clear()
                outcome = await store.commit(puts=step.puts, deletes=deletes, compare=compare)
                if isinstance(outcome, Conflict):
                    assert outcome == model.conflict(compare)
                    happened = []
                else:
                    assert model.conflict(compare) is None
                    happened = model.commit(step.puts, deletes, revision=outcome)
                changes = [change for change in happened if change[0].startswith(prefix)]
                assert [tuple(change) for commit in seen for change in commit] == changes
                assert len(seen) == bool(changes)
            listing = await store.list(prefix)
            assert listing.entries == model.list(prefix)
            assert listing.revision >= model.revision
            for key in KEYS:
                assert await store.get(key) == model.entries.get(key)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_store_keeps_the_promises_of_the_contract(
    kind: str, scenario: Callable[[Store], Coroutine[Any, Any, None]]
) -> None:
    drive(kind, scenario)


@pytest.mark.parametrize("kind", KINDS_WITHOUT_LIMITS)
def test_a_large_commit_gives_the_loop_back_and_is_seen_as_a_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 0)
    keys = [f"key-{number:05}" for number in range(1000)]
    seen: list[int] = []

    async def look(store: Store) -> None:
        while True:
            seen.append(len((await store.list("key-")).entries))
            await asyncio.sleep(0)

    async def scenario(store: Store) -> None:
        noticed: list[Change] = []
        store.watch("key-", noticed.extend)
        looking = asyncio.create_task(look(store))
        for puts, deletes in ((dict.fromkeys(keys, b"value"), []), ({}, [*keys, "another"])):
            seen.clear()
            revision = await store.commit(puts=puts, deletes=deletes)
            assert isinstance(revision, int)
            before, after = (0, 1000) if puts else (1000, 0)
            assert seen.count(before) > 5
            assert {*seen} <= {before, after}
            assert noticed == [Change(key, puts.get(key), revision) for key in keys]
            assert len((await store.list("key-")).entries) == after
            noticed.clear()
        looking.cancel()

    drive(kind, scenario)


@pytest.mark.parametrize("url", ["", "memory", "memory:x", "sqlite:", "/var/lib/x.db"])
def test_an_unknown_kind_of_store_is_refused_by_name(url: str) -> None:
    with pytest.raises(StoreError, match="is unknown: it is 'memory:'"):
        open_store(url)
