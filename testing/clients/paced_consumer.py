"""A stock consumer that reads only as far as it is asked to: each line of stdin is a number of records, and each line of stdout
has the offsets of as many, or of fewer at the end.

    python paced_consumer.py '{"client": "kafka-python", "bootstrap": HOST:PORT, "topic": NAME, "last": OFFSET, "options": {...}}'

The client is kafka-python, confluent-kafka or aiokafka, of any release: the program imports nothing of the tests, because it may
run in an environment of its own. It reads partition 0 from the earliest offset, or as a member of a group when `group` is there,
and then commits what it has printed. It fetches a few kB at a time, so that it knows little of what it was not asked for.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys
import threading
from collections.abc import Coroutine, Generator
from typing import Any

FETCH_BYTES = 4000
WAIT_S = 120


def kafka_python(job: dict[str, Any]) -> Generator[int, None, None]:
    """Yield offsets as kafka-python reads them."""
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 (an environment has one of the clients)

    options = dict(job["options"])
    if "api_version" in options:
        options["api_version"] = tuple(options["api_version"])
    consumer = KafkaConsumer(
        bootstrap_servers=job["bootstrap"], group_id=job.get("group"), auto_offset_reset="earliest",
        enable_auto_commit=False, max_partition_fetch_bytes=FETCH_BYTES, **options,
    )  # fmt: skip
    if job.get("group"):
        consumer.subscribe([job["topic"]])
    else:
        consumer.assign([TopicPartition(job["topic"], 0)])
    try:
        for record in consumer:
            if job.get("group"):
                consumer.commit()
            yield record.offset
    finally:
        consumer.close()


def confluent_kafka(job: dict[str, Any]) -> Generator[int, None, None]:
    """Yield offsets as librdkafka reads them."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer({
        "bootstrap.servers": job["bootstrap"], "group.id": job.get("group") or "unused", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "fetch.message.max.bytes": FETCH_BYTES, "queued.min.messages": 1, **job["options"],
    })  # fmt: skip
    if job.get("group"):
        consumer.subscribe([job["topic"]])
    else:
        consumer.assign([TopicPartition(job["topic"], 0, OFFSET_BEGINNING)])
    try:
        while True:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                raise RuntimeError(message.error())
            if job.get("group"):
                consumer.commit(message, asynchronous=False)
            yield message.offset()
    finally:
        consumer.close()


def aiokafka(job: dict[str, Any]) -> Generator[int, None, None]:
    """Yield offsets as aiokafka reads them."""
    import aiokafka as library  # noqa: PLC0415

    async def start() -> Any:
        consumer = library.AIOKafkaConsumer(
            bootstrap_servers=job["bootstrap"], group_id=job.get("group"), auto_offset_reset="earliest",
            enable_auto_commit=False, max_partition_fetch_bytes=FETCH_BYTES, **job["options"],
        )  # fmt: skip
        await consumer.start()
        if job.get("group"):
            consumer.subscribe([job["topic"]])
        else:
            consumer.assign([library.TopicPartition(job["topic"], 0)])
        return consumer

    async def get(consumer: Any) -> int:
        record = await consumer.getone()
        if job.get("group"):
            await consumer.commit()
        return int(record.offset)

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()  # its heartbeats continue while nothing is read

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(WAIT_S)

    consumer = run(start())
    try:
        while True:
            yield run(get(consumer))
    finally:
        run(consumer.stop())


CLIENTS = {"kafka-python": kafka_python, "confluent-kafka": confluent_kafka, "aiokafka": aiokafka}


def main() -> None:
    """Read as many records as each line of stdin wants."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    job = json.loads(sys.argv[1])
    offsets = CLIENTS[job["client"]](job)
    for line in sys.stdin:
        found: list[int] = []
        for offset in itertools.islice(offsets, int(line)):
            found.append(offset)
            if offset >= job["last"]:
                break
        print(*found, flush=True)
    offsets.close()  # a member leaves its group


main()
