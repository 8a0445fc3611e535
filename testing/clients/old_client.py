"""A client that runs in an environment with an old release of kafka-python: it takes steps from stdin and prints their results.

stdin is one JSON object {bootstrap, api_version, steps: [{verb: "produce" | "consume", topic, ...}]}, stdout a list with one
result per step. Bytes travel as hex, or null. The program imports nothing of the tests, because it does not run in their
environment.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

TIMEOUT_S = 60


def to_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def from_hex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def produce(common: dict[str, Any], step: dict[str, Any]) -> list[int]:
    """Send the step's records and return the offsets that the broker gave."""
    producer = KafkaProducer(
        acks=step["acks"], compression_type=None if step["codec"] == "none" else step["codec"], linger_ms=20, **common
    )
    try:
        futures = [
            producer.send(step["topic"], from_hex(value), key=from_hex(key), partition=0, timestamp_ms=timestamp)
            for key, value, timestamp in step["records"]
        ]
        return [future.get(TIMEOUT_S).offset for future in futures]
    finally:
        producer.close()


def consume(common: dict[str, Any], step: dict[str, Any]) -> list[Any]:
    """Return [offset, key, value, timestamp or null] of each record."""
    consumer = KafkaConsumer(group_id=None, consumer_timeout_ms=TIMEOUT_S * 1000, **common)
    try:
        where = TopicPartition(step["topic"], 0)
        consumer.assign([where])
        if step["from_beginning"]:
            consumer.seek_to_beginning(where)  # asks the broker for that offset
        else:
            consumer.seek(where, step["offset"])
        records = []
        for record in consumer:
            records.append([record.offset, to_hex(record.key), to_hex(record.value), record.timestamp])
            if len(records) == step["count"]:
                break
        return records
    finally:
        consumer.close()


def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    job = json.load(sys.stdin)
    common = {"bootstrap_servers": job["bootstrap"], "api_version": tuple(job["api_version"])}
    verbs = {"produce": produce, "consume": consume}
    json.dump([verbs[step["verb"]](common, step) for step in job["steps"]], sys.stdout)


main()
