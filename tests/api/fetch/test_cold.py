"""Fetches from places that the page cache lacks: a thread looks them up, and the loop serves other requests meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from pybroker.log import cold_lookup
from pybroker.log.segments import index_rebuild
from pybroker.replication.cold_lookups import PER_ROUND_MAX
from testing.scenes.api import records
from testing.scenes.api.whole import Whole
from tests.api.handlers.test_fetch import partition_responses, request
from tests.api.handlers.test_produce import request as produce_request

PARTITIONS = PER_ROUND_MAX + 4
VALUES = [(0, b"a"), (1, b"b")]


async def cold(tmp_path: Path) -> Whole:
    """Start a broker with a topic whose files are closed, as after a restart."""
    whole = await Whole(tmp_path).start()
    await whole.create("t", PARTITIONS)
    for number in range(PARTITIONS):
        await whole.ask(produce_request(records.batch_of_values(b"a", b"b"), partition=number), 9)
    for log in whole.logs.all_logs():
        log.segments.active.tail.forget()
        log.segments.active.let_go()
    return whole


class Lookups:
    """The lookups that threads did; they wait for `may_run`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[threading.Thread] = []
        self.may_run = threading.Event()
        warm = index_rebuild.look

        def watched(*arguments: Any) -> None:
            assert self.may_run.wait(60)
            self.threads.append(threading.current_thread())
            warm(*arguments)

        monkeypatch.setattr(index_rebuild, "look", watched)


@pytest.mark.parametrize("version", [4, 12])
async def test_a_fetch_of_cold_partitions_waits_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    whole, lookups = await cold(tmp_path), Lookups(monkeypatch)
    asked = asyncio.ensure_future(whole.ask(request(*(0,) * PARTITIONS), version))
    await asyncio.sleep(0)
    assert (await whole.ask(produce_request(records.batch_of_values(b"c")), 9)).responses, "the loop serves others"
    assert not asked.done()
    lookups.may_run.set()
    found = partition_responses(await asked)
    assert [values[:2] for _, values in found] == [VALUES] * PARTITIONS
    assert {code for code, _ in found} == {0}
    assert len(lookups.threads) == PARTITIONS
    assert threading.main_thread() not in lookups.threads
    lookups.threads.clear()
    assert partition_responses(await whole.ask(request(*(0,) * PARTITIONS), version)) == found
    assert lookups.threads == [], "now the files are open"


async def test_each_partition_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a page cache that loses its pages again and again delays no fetch endlessly."""
    whole, lookups = await cold(tmp_path), Lookups(monkeypatch)
    lookups.may_run.set()
    monkeypatch.setattr(cold_lookup, "_is_in_memory", lambda *_: False)
    found = partition_responses(await whole.ask(request(*(0,) * PARTITIONS, max_bytes=1), 12))
    assert [values for _, values in found] == [VALUES, *[[]] * (PARTITIONS - 1)]
    assert len(lookups.threads) == PARTITIONS


async def test_a_fetch_that_cannot_be_looked_up_gets_the_error_of_the_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await cold(tmp_path)

    def failing(*_: Any) -> None:
        raise OSError("bad sector")

    monkeypatch.setattr(index_rebuild, "look", failing)
    ((code, values), *_) = partition_responses(await whole.ask(request(0), 12))
    assert (code, values) == (0, VALUES), "the read itself found no error"
