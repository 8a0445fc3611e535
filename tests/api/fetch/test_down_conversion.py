"""Batches that take long to convert for an old client do not hold the loop: neither large ones, nor those that inflate far."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pybroker.long_work import LongWork
from pybroker.model import Offset
from pybroker.network.context import Outgoing, ProtocolViolation
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.protocol.parts import SendPart
from pybroker.records import kernels, legacy
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from testing.scenes.api.whole import Whole, settled
from testing.turns import run_watched

Result = TypeVar("Result")

SIZE_MAX = 96 << 20
OTHERS = {"Loop.shutdown_default_executor", "_rest", "Produce", ".ask held"}
"""Words of turns that are no part of the fetch: the end of the loop, the append of the batch before, and the client."""


def produced(codec: CompressionType, count: int, size: int) -> ProduceRequest:
    records = [Record(Offset(number), 1000 + number, None, bytes(size)) for number in range(count)]
    data = [PartitionProduceData(index=0, records=bytes(build_batch(records, compression=codec)))]
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=SIZE_MAX)
    return FetchRequest(max_wait_ms=0, max_bytes=SIZE_MAX, topics=[FetchTopic(topic="t", partitions=[partition])])


async def sent(outgoing: bytes | Outgoing) -> bytes:
    """Return all bytes of a response, pulled as the network does: with what is cold in a thread, and each pull in a turn."""
    if isinstance(outgoing, bytes):
        return outgoing
    pieces: list[Any] = []
    for part in outgoing.parts:
        if not isinstance(part, SendPart):
            pieces.append(part)
            continue
        left = part.size
        while left:
            await asyncio.sleep(0)
            if (cold := part.cold()) is not None:
                await asyncio.get_running_loop().run_in_executor(None, cold)
                await asyncio.sleep(0)
            pulled = part.pull(1 << 20)
            left -= sum(map(len, pulled))
            pieces += pulled
        part.close()
    return await asyncio.get_running_loop().run_in_executor(None, b"".join, pieces)


class Conversions(LongWork):
    """Threads for conversions: `asked` is set when one is asked for."""

    def __init__(self, name: str, threads: int) -> None:
        super().__init__(name, threads)
        self.asked = asyncio.Event()

    def run(self, function: Callable[[], Result], size: int = 0) -> asyncio.Future[Result]:
        self.asked.set()
        return super().run(function, size)


async def old_fetch(directory: Path) -> tuple[Whole, Conversions, asyncio.Future[Any]]:
    """Fetch as an old client does a batch that is converted in a thread."""
    whole = await Whole(directory, message_max_bytes=SIZE_MAX).start()
    await whole.create("t")
    await whole.ask(produced(CompressionType.GZIP, 30, 1 << 20), 8)
    conversions = whole.services.conversions = Conversions("convert", 1)
    waiting = whole.send(fetch(), 3)
    assert isinstance(waiting, asyncio.Future)
    return whole, conversions, waiting


async def test_conversions_and_cold_reads_do_not_wait_for_each_other(tmp_path: Path) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as reads:
        asyncio.get_running_loop().set_default_executor(reads)
        reading = asyncio.get_running_loop().run_in_executor(None, gate.wait, 10)
        try:
            _, _, waiting = await old_fetch(tmp_path)
            assert isinstance(await waiting, Outgoing)
            assert not reading.done()
        finally:
            gate.set()


async def test_a_conversion_that_waits_for_a_thread_ends_with_its_connection(tmp_path: Path) -> None:
    gate = threading.Event()
    whole, conversions, first = await old_fetch(tmp_path)
    await first
    busy = conversions.run(lambda: gate.wait(10))
    conversions.asked.clear()
    waiting = whole.send(fetch(), 3)
    await conversions.asked.wait()
    whole.connection.lose()
    gate.set()
    assert await busy
    with pytest.raises(ProtocolViolation, match="closed"):
        await settled(waiting)


@pytest.mark.judges_time
@pytest.mark.skipif(not kernels.IS_NATIVE, reason="the kernels in Python take turns at the interpreter with the loop")
@pytest.mark.parametrize(
    ("codec", "count", "size", "version"),
    [(CompressionType.GZIP, 30, 1 << 20, 0), (CompressionType.GZIP, 30, 1 << 20, 3), (CompressionType.NONE, 100_000, 600, 3)],
    ids=["bomb-0", "bomb-3", "large-3"],
)
def test_a_long_conversion_does_not_hold_the_loop(
    tmp_path: Path, codec: CompressionType, count: int, size: int, version: int
) -> None:
    request = produced(codec, count, size)

    async def ask() -> bytes:
        whole = await Whole(tmp_path, message_max_bytes=SIZE_MAX).start()
        await whole.create("t")
        parts = await whole.ask(request, 8)
        assert parts.responses[0].partition_responses[0].error_code == 0
        await asyncio.sleep(0)
        return await asyncio.ensure_future(sent(await settled(whole.send(fetch(), version))))

    turns = run_watched(ask)
    assert turns.long_texts(*OTHERS) == []
    response = Whole.read(None, turns.result, fetch(), version)  # type: ignore[arg-type]  # it needs nothing of a broker
    records = response.responses[0].partitions[0].records
    assert [record.offset for record in legacy.records(records)] == list(range(count))
