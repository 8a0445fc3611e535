"""Consumers of one partition, and looks at the last stable offset."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from testing.transactions.history import Contents, History, Reading, StableOffset
from testing.transactions.isolation import hand_out
from tests.transactions.connection import Connection, DisconnectedError
from tests.transactions.writer import TOPIC

LATEST = -1
BYTES_MAX = 1 << 20


async def fetch(
    connection: Connection, partition: int, offset: int, *, is_committed: bool, bytes_max: int = BYTES_MAX, topic: str = TOPIC
) -> Any:
    """Return the partition's part of a response."""
    one = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    asked = FetchTopic(topic=topic, partitions=[one])
    request = FetchRequest(max_bytes=bytes_max, isolation_level=int(is_committed), topics=[asked])
    response = await connection.ask(request, 11)
    return response.responses[0].partitions[0]


class Reader:
    """A consumer with `read_committed`, which survives the broker."""

    def __init__(self, name: str, partition: int, random: Random) -> None:
        self.name, self.partition, self._random = name, partition, random
        self._records: list[tuple[int, bytes]] = []
        self._position = 0

    async def live(self, connection: Connection) -> None:
        """Read until the broker ends."""
        try:
            while True:
                await asyncio.sleep(self._random.choice((0, 0.01, 0.5)))
                bytes_max = self._random.choice((100, 400, BYTES_MAX))
                data = await fetch(connection, self.partition, self._position, is_committed=True, bytes_max=bytes_max)
                if not data.error_code:
                    out = hand_out(bytes(data.records or b""), data.aborted_transactions or (), self._position)
                    self._records += out.records
                    self._position = out.next_offset
        except DisconnectedError:
            return

    def reading(self) -> Reading:
        """Return what was read."""
        return Reading(self.name, self.partition, self._records, self._position)


async def watch(connection: Connection, partitions: int, history: History, random: Random) -> None:
    """Note last stable offsets until the broker ends, by Fetch and by ListOffsets."""
    try:
        while True:
            await asyncio.sleep(random.choice((0, 0.02, 0.3)))
            partition, began = random.randrange(partitions), history.stamp()
            if random.random() < 0.5:
                data = await fetch(connection, partition, 0, is_committed=True, bytes_max=1)
                offset = -1 if data.error_code else data.last_stable_offset
            else:
                asked = ListOffsetsTopic(
                    name=TOPIC, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
                )
                response = await connection.ask(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[asked]), 5)
                found = response.topics[0].partitions[0]
                offset = -1 if found.error_code else found.offset
            if offset >= 0:
                history.stable_offsets.append(StableOffset(partition, offset, began, history.stamp()))
    except DisconnectedError:
        return


async def read_all(connection: Connection, partition: int) -> Contents:
    """Return everything that is in the partition."""
    last = await fetch(connection, partition, 0, is_committed=True)
    found: dict[bool, list[tuple[int, bytes]]] = {}
    for is_committed in (True, False):
        position, records = 0, found.setdefault(is_committed, [])
        end = last.last_stable_offset if is_committed else last.high_watermark
        while position < end:
            data = await fetch(connection, partition, position, is_committed=is_committed)
            aborted = (data.aborted_transactions or ()) if is_committed else None
            out = hand_out(bytes(data.records or b""), aborted, position)
            assert out.next_offset > position, f"partition {partition} cannot be read at {position}"
            records += out.records
            position = out.next_offset
    return Contents(found[True], found[False], last.last_stable_offset, last.high_watermark)
