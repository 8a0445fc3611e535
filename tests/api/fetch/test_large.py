"""A fetch that pauses has the response of one that does not, and fetches of many partitions do not hold the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.protocol import codec
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.sharing import work as sharing
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.scenes.logs import batch
from testing.turns import run_watched
from testing.waiting import turned_until

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
def pauses(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let a fetch pause after each three partitions."""
    monkeypatch.setattr(sharing, "_PORTION", 3)
    monkeypatch.setattr(sharing, "SLICE_S", -1.0)
    return monkeypatch


@pytest.mark.parametrize("version", [3, 4, 11, 13, 17])
@pytest.mark.parametrize("limit", [0, 250, 1 << 20])
async def test_a_fetch_that_pauses_has_the_same_response(
    tmp_path: Path, pauses: pytest.MonkeyPatch, version: int, limit: int
) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    request = fetch(*range(25), 3, topic_id=topic_id, max_bytes=limit)
    with_pauses = whole.send(request, version)
    assert isinstance(with_pauses, asyncio.Future)
    with_pauses = whole.read(await with_pauses, request, version)
    pauses.undo()
    at_once = await whole.ask(request, version)
    assert with_pauses == at_once
    assert [one.partition_index for one in at_once.responses[0].partitions] == list(range(25))


@pytest.mark.parametrize("version", [11, 17])
@pytest.mark.usefixtures("pauses")
async def test_a_session_is_served_with_pauses(tmp_path: Path, version: int) -> None:
    whole, topic_id = await filled(tmp_path, 20)
    full = await whole.ask(fetch(*range(20), topic_id=topic_id, session_epoch=0), version)
    assert (len(full.responses[0].partitions), full.session_id > 0) == (20, True)
    news = await whole.ask(fetch(session_id=full.session_id, session_epoch=1), version)
    assert [one.partition_index for one in news.responses[0].partitions] == [0, 7, 14], "those with records"
    late = whole.send(fetch(session_id=full.session_id, session_epoch=2, max_wait_ms=500, min_bytes=1 << 20), version)
    await turned_until(lambda: whole.replicas.fetch_purgatory.delayed, "the wait")
    assert not late.done()
    whole.pass_time(500)
    assert (await late) is not None


@pytest.mark.parametrize("version", range(4))
async def test_an_old_client_s_fetch_of_a_few_partitions_makes_no_future(tmp_path: Path, version: int) -> None:
    whole, _ = await filled(tmp_path, 20)
    request = fetch(*range(20))
    response = whole.send(request, version)
    assert not isinstance(response, asyncio.Future)
    found = whole.read(response, request, version).responses[0].partitions
    assert [len(one.records) > 0 for one in found] == [number % 7 == 0 for number in range(20)]


@pytest.mark.parametrize("version", [3, 9, 11])
async def test_a_fetch_whose_connection_is_gone_ends_where_it_pauses(
    tmp_path: Path, pauses: pytest.MonkeyPatch, version: int
) -> None:
    whole, _ = await filled(tmp_path, 20)
    request = fetch(*range(20), max_wait_ms=(1 << 31) - 1, min_bytes=1 << 20)
    waiting = whole.send(request, version)
    await turned_until(lambda: whole.replicas.fetch_purgatory.delayed, "the wait")
    waiting.cancel()
    await turned_until(lambda: not whole.replicas.fetch_purgatory.delayed, "its end")


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
