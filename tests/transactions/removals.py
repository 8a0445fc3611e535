"""A topic that an administrator deletes and makes again in the middle of transactions, and the markers that it has in the end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from aiokafka.record.memory_records import MemoryRecords

from pybroker.metadata.new_topic import NewTopic
from testing.transactions.history import History
from tests.transactions.connection import Connection
from tests.transactions.readers import fetch
from tests.transactions.writer import REMOVED_TOPIC

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller


async def _make(controller: Controller, history: History) -> None:
    """Create the topic if it is missing."""
    if REMOVED_TOPIC not in controller.image.topics:
        history.made = history.stamp()
        await controller.create_topics([NewTopic(name=REMOVED_TOPIC, partition_count=1, configs={})])


async def delete(controller: Controller, _history: History) -> None:
    """Delete the topic if it is there."""
    if REMOVED_TOPIC in controller.image.topics:
        await controller.delete_topics([controller.image.topics[REMOVED_TOPIC].topic_id])


async def delete_and_make(controller: Controller, history: History) -> None:
    """Delete the topic and create it at once."""
    await delete(controller, history)
    await _make(controller, history)


async def make_again(connection: Connection, controller: Controller, history: History, random: Random) -> None:
    """Delete the topic and create it again, until the broker ends."""
    while not connection.is_closed:
        await _make(controller, history)
        await asyncio.sleep(random.choice((0.1, 0.5, 2)))
        if not connection.is_closed:
            await delete(controller, history)
            await asyncio.sleep(random.choice((0, 0.1, 1)))


async def note_markers(connection: Connection, history: History) -> None:
    """Note the producers of the markers in the topic, and whether it can be read to its end."""
    position = 0
    while True:
        data = await fetch(connection, 0, position, is_committed=False, topic=REMOVED_TOPIC)
        batches = MemoryRecords(bytes(data.records or b""))
        if not batches.has_next():
            history.last_removed_open = data.high_watermark - data.last_stable_offset
            return
        while (batch := batches.next_batch()) is not None:
            if batch.is_control_batch:
                history.last_markers.append(batch.producer_id)
            position = batch.next_offset
