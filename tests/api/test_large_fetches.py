"""Fetches of many partitions are done in steps: the response is that at once, and the loop is not held."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pybroker.api import fetch_steps
from pybroker.api.fetch_partition import aborted_in_steps
from pybroker.api.handlers import fetch as handler
from pybroker.api.slices import LARGE_PARTITIONS
from pybroker.protocol import codec
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.slicing import emptied
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.scenes.logs import batch
from testing.steps import steps_of
from testing.turns import run_watched

MANY = 10_000


def fetch(*numbers: int, topic_id: bytes = bytes(16), **fields: Any) -> FetchRequest:
    partitions = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in numbers]
    asked = [FetchTopic(topic="t", topic_id=topic_id, partitions=partitions)] if numbers else []
    return FetchRequest(**{"max_wait_ms": 0, "max_bytes": 1 << 20, **fields}, topics=asked)


async def filled(tmp_path: Path, count: int) -> tuple[Whole, bytes]:
    whole = await Whole(tmp_path).start()
    topic_id = await whole.create("t", count)
    data = [PartitionProduceData(index=number, records=batch()) for number in range(0, min(count, 50), 7)]
    await whole.ask(ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)]), 8)
    return whole, topic_id


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(fetch_steps, "LARGE_PARTITIONS", 0)
    monkeypatch.setattr(handler, "LARGE_PARTITIONS", 0)
    monkeypatch.setattr(fetch_steps, "_STEP_PARTITIONS", 3)
    return monkeypatch


@pytest.mark.parametrize("version", [3, 4, 11, 13, 17])
@pytest.mark.parametrize("limit", [0, 250, 1 << 20])
async def test_the_response_is_that_at_once(
    tmp_path: Path, everything_is_large: pytest.MonkeyPatch, version: int, limit: int
) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    request = fetch(*range(25), 3, topic_id=topic_id, max_bytes=limit)
    in_steps = await whole.ask(request, version)
    everything_is_large.undo()
    at_once = await whole.ask(request, version)
    assert in_steps == at_once
    assert [one.partition_index for one in at_once.responses[0].partitions] == list(range(25))


@pytest.mark.parametrize("version", [11, 17])
async def test_a_session_is_served_in_steps(tmp_path: Path, everything_is_large: pytest.MonkeyPatch, version: int) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    full = await whole.ask(fetch(*range(20), topic_id=topic_id, session_epoch=0), version)
    assert (len(full.responses[0].partitions), full.session_id > 0) == (20, True)
    news = await whole.ask(fetch(session_id=full.session_id, session_epoch=1), version)
    assert [one.partition_index for one in news.responses[0].partitions] == [0, 7, 14], "those with records"
    late = whole.send(fetch(session_id=full.session_id, session_epoch=2, max_wait_ms=500, min_bytes=1 << 20), version)
    await asyncio.sleep(0)
    assert not late.done()
    whole.pass_time(500)
    assert (await late) is not None


def test_the_places_of_many_partitions_are_not_looked_at_by_each_collection() -> None:
    work = fetch_steps.wanted_in_steps(fetch(*range(5_000)), None)
    for _ in range(5):
        next(work)
    gc.collect()
    places = inspect.getgeneratorlocals(work)["places"]
    assert sum(map(len, places)) >= 1_000
    assert all(gc.is_tracked(one) for one in places), "otherwise it is young again when it grows"
    assert [one.partition for one in steps_of(work)[1]] == [*range(5_000)]


@pytest.mark.parametrize("is_large", [True, False])
@pytest.mark.parametrize("version", [11, 13])
async def test_a_session_forgets_what_it_has_and_what_it_gets_with_the_same_request(
    tmp_path: Path, everything_is_large: pytest.MonkeyPatch, version: int, is_large: bool
) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    if not is_large:
        everything_is_large.undo()
    full = await whole.ask(fetch(*range(10), topic_id=topic_id, session_epoch=0), version)
    session = whole.services.fetch_sessions.get(full.session_id)
    assert session is not None
    forgotten = [ForgottenTopic(topic="t", topic_id=topic_id, partitions=[3, 1, 12, 99])]
    again = fetch(11, 12, topic_id=topic_id, session_id=full.session_id, session_epoch=1, forgotten_topics_data=forgotten)
    await whole.ask(again, version)
    assert {number for _, number in session.partitions} == {0, 2, *range(4, 10), 11}


async def test_a_small_request_of_a_large_session_is_handled_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, topic_id = await filled(tmp_path, 1)
    numbers = range(LARGE_PARTITIONS + 1)
    full = await whole.ask(fetch(*numbers, topic_id=topic_id, session_epoch=0), 13)
    monkeypatch.setattr(type(whole.services.fetch_sessions), "context", None)
    more = fetch(*numbers[-1:], topic_id=b"x" * 16, session_id=full.session_id, session_epoch=1)
    response = await whole.ask(more, 13)
    assert (response.error_code, [one.topic_id for one in response.responses]) == (0, [topic_id, b"x" * 16])


@pytest.mark.parametrize("is_large", [True, False])
async def test_a_session_forgets_a_partition_of_the_zero_topic_id(
    tmp_path: Path, everything_is_large: pytest.MonkeyPatch, is_large: bool
) -> None:
    whole, topic_id = await filled(tmp_path, 2)
    if not is_large:
        everything_is_large.undo()
    full = await whole.ask(fetch(0, topic_id=topic_id, session_epoch=0), 13)
    session = whole.services.fetch_sessions.get(full.session_id)
    assert session is not None
    await whole.ask(fetch(7, topic_id=bytes(16), session_id=full.session_id, session_epoch=1), 13)
    assert len(session.partitions) == 2
    forgotten = [ForgottenTopic(topic_id=bytes(16), partitions=[7])]
    await whole.ask(fetch(session_id=full.session_id, session_epoch=2, forgotten_topics_data=forgotten), 13)
    assert list(session.partitions) == [(topic_id, 0)]


async def test_what_a_large_fetch_was_made_of_is_freed_in_steps(tmp_path: Path, everything_is_large: pytest.MonkeyPatch) -> None:
    freed: list[list[int]] = []

    def noted(*collections: Any) -> Generator[None, None, None]:
        freed.append([*map(len, collections)])
        return emptied(*collections)

    everything_is_large.setattr(handler, "emptied", noted)
    whole, _ = await filled(tmp_path, 20)
    full = await whole.ask(fetch(*range(20), session_epoch=0), 11)
    assert freed == [[20, 20, 0, 20, 20]], "results for the response, all results, unknown ids, what was read, what was asked"
    del freed[:]
    await whole.ask(fetch(*range(18, 30), session_id=full.session_id, session_epoch=1), 11)
    assert freed[0] == [12], "the changes, before the fetch may wait"
    assert [count > 0 for count in freed[1]] == [True, True, False, True, True]


def test_many_partitions_are_looked_through_in_steps() -> None:
    request = fetch(*range(MANY), *range(MANY), topic_id=b"x" * 16)
    steps, wanted = steps_of(fetch_steps.wanted_in_steps(request, lambda _: None))
    assert (steps >= 2 * MANY // 200, [one.partition for one in wanted]) == (True, [*range(MANY)])
    steps, (known, erroneous) = steps_of(fetch_steps.known_in_steps(wanted, uses_ids=True))
    assert (steps >= MANY // 200, known, len(erroneous)) == (True, [], MANY)
    steps, _ = steps_of(aborted_in_steps(erroneous))
    assert steps >= MANY // 1_000


def test_a_fetch_that_forgets_many_partitions_is_large() -> None:
    assert not fetch_steps.is_large(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0])]))
    assert fetch_steps.is_large(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[0] * MANY)]))
    assert fetch_steps.is_large(FetchRequest(forgotten_topics_data=[ForgottenTopic(topic="t", partitions=[])] * MANY))


@pytest.mark.judges_time
@pytest.mark.skipif(not codec.IS_NATIVE, reason="to read and encode this many in Python takes longer than a turn may")
def test_many_partitions_do_not_hold_the_loop(tmp_path: Path) -> None:
    async def ask() -> int:
        whole, _ = await filled(tmp_path, 1)
        numbers = range(MANY)
        for epoch in (-1, 0):
            frame = frame_of(fetch(*numbers, session_epoch=epoch), 11)
            await asyncio.sleep(0)
            full = whole.read(await settled(whole.dispatcher.handle(whole.connection, frame)), fetch(), 11)
            await asyncio.sleep(0)
        return len(full.responses[0].partitions)

    turns = run_watched(ask)
    assert turns.result == MANY
    assert turns.long_texts("<locals>.ask held") == []


@pytest.mark.judges_time
@pytest.mark.skipif(not codec.IS_NATIVE, reason="to read and encode this many in Python takes longer than a turn may")
def test_a_fetch_of_many_partitions_that_waits_does_not_hold_the_loop(tmp_path: Path) -> None:
    """Neither when it begins to wait, nor when a record comes, nor when it ends."""

    async def ask() -> Any:
        whole, _ = await filled(tmp_path, 1)
        frame = frame_of(fetch(*range(MANY), max_wait_ms=500, min_bytes=1 << 20), 11)
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(settled(whole.dispatcher.handle(whole.connection, frame)))
        purgatory = whole.replicas.fetch_purgatory
        for _ in range(1000):
            await asyncio.sleep(0)
        assert purgatory.watched == MANY
        data = [PartitionProduceData(index=0, records=batch())]
        await whole.ask(ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=data)]), 8)
        assert not waiting.done()
        whole.pass_time(500)
        return whole.read(await waiting, fetch(), 11)

    turns = run_watched(ask)
    assert turns.long_texts("<locals>.ask held") == []
    assert len(turns.result.responses[0].partitions) == MANY
