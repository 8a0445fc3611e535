"""aiokafka, whose groups have the classic protocol only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from testing.clients.sequences.roles import METADATA_AGE_MS, PAUSE_S, Record
from testing.waiting import WAIT_S

CALL_S: Final = 60
_KNOWN: Final = {"request_timeout_ms": 8_000, "metadata_max_age_ms": METADATA_AGE_MS}


class AioProducer:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap, "acks": "all", "enable_idempotence": True, "linger_ms": 2, **_KNOWN,
        }  # fmt: skip
        if transactional_id:
            self._settings |= {"transactional_id": transactional_id, "transaction_timeout_ms": 10_000}
        self._producer: Any = None
        self._notes: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._producer = AIOKafkaProducer(**self._settings)
        await self._producer.start()

    async def send(self, topic: str, partition: int, value: str, done: Callable[[int, str], None]) -> None:
        future = await self._producer.send(topic, value.encode(), partition=partition)

        async def note() -> None:
            try:
                done((await asyncio.wait_for(future, WAIT_S)).offset, "")
            except (KafkaError, TimeoutError) as error:
                done(-1, repr(error))

        task = asyncio.ensure_future(note())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def deliver(self) -> None:
        await asyncio.wait_for(self._producer.flush(), WAIT_S)
        await asyncio.gather(*self._notes)

    async def begin(self) -> None:
        await self._producer.begin_transaction()

    async def commit(self) -> None:
        await self._producer.commit_transaction()

    async def abort(self) -> None:
        await self._producer.abort_transaction()

    async def close(self) -> None:
        await asyncio.wait_for(self._producer.stop(), CALL_S)


class AioConsumer:
    def __init__(self, bootstrap: str, group: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap, "group_id": group or None, "auto_offset_reset": "earliest",
            "enable_auto_commit": False, "isolation_level": "read_committed", "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 500, **_KNOWN,
        }  # fmt: skip
        self._consumer: Any = None

    async def start(self, topics: list[str], partitions: int) -> None:
        self._consumer = AIOKafkaConsumer(*(topics if self._settings["group_id"] else ()), **self._settings)
        if not self._settings["group_id"]:
            self._consumer.assign([TopicPartition(topic, number) for topic in topics for number in range(partitions)])
        await self._consumer.start()

    async def poll(self) -> list[Record]:
        read = await self._consumer.getmany(timeout_ms=200)
        return [Record(one.topic, one.partition, one.offset, one.value.decode()) for records in read.values() for one in records]

    async def commit(self, ends: dict[tuple[str, int], int]) -> bool:
        try:
            await self._consumer.commit({TopicPartition(*where): offset for where, offset in ends.items()})
        except KafkaError:
            await asyncio.sleep(PAUSE_S)
            return False
        return True

    async def close(self) -> None:
        await self._consumer.stop()


class AioKafka:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def producer(self, transactional_id: str = "") -> AioProducer:
        return AioProducer(self._bootstrap, transactional_id)

    def consumer(self, group: str = "") -> AioConsumer:
        return AioConsumer(self._bootstrap, group)
