"""Stock clients of Python at a listener with TLS or logins: each line of stdin is a job, each line of stdout its result.

A job is JSON: `client`, `topic`, `access` as in `Access`, `seconds`, `is_refused`. The client writes numbers for that long, at
least one, while another one of it reads them. The result has `read`, how many the reader got in their order, and `written`; or
`error`, the class of the client's exception or the name of its code, and `text`, with what the client logged.

They have a process of their own because a producer of kafka-python that cannot log in leaves sockets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testing.clients.access import Access

PAUSE_S: Final = 0.02
LIMIT_MS: Final = 60_000


@dataclass
class Job:
    topic: str
    access: Access
    seconds: float
    is_refused: bool

    def token(self) -> str:
        return Path(self.access.token).read_text()

    def numbers(self) -> Any:
        """Yield 0, 1, 2 and so on, with pauses, until the time is over."""
        end, number = time.monotonic() + self.seconds, 0
        while True:
            yield number
            number += 1
            time.sleep(PAUSE_S if self.seconds else 0)
            if time.monotonic() >= end:
                return


def in_order(values: list[bytes]) -> int:
    """Return how many values there are. Raises AssertionError unless they are 0, 1, 2 and so on."""
    assert values == [b"%d" % number for number in range(len(values))], values
    return len(values)


def kafka_python(job: Job) -> tuple[int, int]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: PLC0415  only what the process runs
    from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: PLC0415  as above

    class Tokens(AbstractTokenProvider):
        def token(self) -> str:
            return job.token()

    settings = job.access.of_kafka_python()
    if job.access.token:
        settings["sasl_oauth_token_provider"] = Tokens()
    if job.is_refused:  # it would try for half a minute
        settings |= {"bootstrap_timeout_ms": 1_000, "reconnect_backoff_ms": 2_000}
    producer = KafkaProducer(max_block_ms=LIMIT_MS, **settings)
    consumer = KafkaConsumer(auto_offset_reset="earliest", **settings)
    try:
        consumer.assign([TopicPartition(job.topic, 0)])
        sent, values = 0, []
        for number in job.numbers():
            producer.send(job.topic, b"%d" % number).get(LIMIT_MS / 1000)
            sent = number + 1
            values += [one.value for batch in consumer.poll(0).values() for one in batch]
        while len(values) < sent:
            values += [one.value for batch in consumer.poll(1_000).values() for one in batch]
    finally:
        consumer.close()
        producer.close()
    return in_order(values), sent


class ClientError(Exception):
    """The first error of librdkafka that is no mere disconnection."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.str())
        self.name = error.name()


def confluent(job: Job) -> tuple[int, int]:
    import confluent_kafka  # noqa: PLC0415  as above

    errors: list[Any] = []

    def wait() -> None:
        while len(producer):
            producer.poll(0.05)
            for error in errors:
                producer.purge()
                raise ClientError(error)

    def delivered(error: Any, _: object) -> None:
        if error is not None:
            errors.append(error)

    def happened(error: Any) -> None:
        if not job.seconds:  # else it connects again by itself
            errors.append(error)

    settings = {**job.access.of_librdkafka(), "error_cb": happened, "message.timeout.ms": LIMIT_MS}
    producer = confluent_kafka.Producer(settings, logger=logging.getLogger("librdkafka"))
    producer.produce(job.topic, b"0", on_delivery=delivered)
    wait()
    reading = {**job.access.of_librdkafka(), "group.id": "none", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(reading, logger=logging.getLogger("librdkafka"))
    consumer.assign([confluent_kafka.TopicPartition(job.topic, 0, 0)])
    values: list[bytes] = []
    sent = 1

    def take(timeout_s: float) -> None:
        values.extend(one.value() for one in consumer.consume(1_000, timeout_s) if one.error() is None)

    for number in job.numbers():
        if number:
            producer.produce(job.topic, b"%d" % number, on_delivery=delivered)
            wait()
        sent = number + 1
        take(0.0)
    while len(values) < sent:
        take(0.1)
    consumer.close()
    return in_order(values), sent


async def _aiokafka(job: Job) -> tuple[int, int]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: PLC0415  as above
    from aiokafka.abc import AbstractTokenProvider  # noqa: PLC0415  as above
    from aiokafka.helpers import create_ssl_context  # noqa: PLC0415  as above

    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return job.token()

    settings = job.access.of_aiokafka(create_ssl_context)
    if job.access.token:
        settings["sasl_oauth_token_provider"] = Tokens()
    producer = AIOKafkaProducer(request_timeout_ms=LIMIT_MS, **settings)
    consumer = AIOKafkaConsumer(auto_offset_reset="earliest", **settings)
    try:
        await producer.start()
        await consumer.start()
        consumer.assign([TopicPartition(job.topic, 0)])
        sent, values = 0, []
        for number in job.numbers():
            await producer.send_and_wait(job.topic, b"%d" % number)
            sent = number + 1
            values += [one.value for batch in (await consumer.getmany()).values() for one in batch]
        while len(values) < sent:
            values += [one.value for batch in (await consumer.getmany(timeout_ms=1_000)).values() for one in batch]
    finally:
        await consumer.stop()
        await producer.stop()
    return in_order(values), sent


def aio(job: Job) -> tuple[int, int]:
    return asyncio.run(_aiokafka(job))


CLIENTS: Final[dict[str, Callable[[Job], tuple[int, int]]]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": aio,
}


def done(line: str) -> dict[str, Any]:
    given = json.loads(line)
    job = Job(given["topic"], Access(**given["access"]), given["seconds"], given["is_refused"])
    logged.clear()
    try:
        read, written = CLIENTS[given["client"]](job)
    except Exception as error:
        return {"error": getattr(error, "name", type(error).__name__), "text": "\n".join([str(error), *logged])}
    return {"read": read, "written": written}


logged: list[str] = []
"""The lines that the client has logged during the job, because some clients have the reason nowhere else."""


class Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        logged.append(record.getMessage())


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger().addHandler(Lines(logging.WARNING))
    for line in sys.stdin:
        print(json.dumps(done(line)), flush=True)
