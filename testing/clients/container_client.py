"""A client that runs inside a toy container and prints one line per fact.

topics BOOTSTRAP, records BOOTSTRAP TOPIC, http METHOD URL [JSON]
"""

from __future__ import annotations

import sys
import time
import urllib.request
import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 60


def topics(bootstrap: str) -> None:
    """Print the names and partitions of the topics, without the coordinators' own."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).topics
    for name in sorted(found):
        if not name.startswith("__"):
            sys.stdout.write(f"{name}={len(found[name].partitions)}\n")


def records(bootstrap: str, topic: str) -> None:
    """Produce a record and read it in a group; print the address that the broker advertises."""
    producer = Producer({"bootstrap.servers": bootstrap})
    value = uuid.uuid4().hex.encode()
    producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0, "the record was not acknowledged"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None and message.value() == value:
            break
    else:
        raise AssertionError(f"the record did not come back from {bootstrap}")
    consumer.close()
    for broker in producer.list_topics(timeout=TIMEOUT_S).brokers.values():
        sys.stdout.write(f"broker {broker.id} at {broker.host}:{broker.port}\n")


def http(method: str, url: str, body: str = "") -> None:
    """Print the body of the first good response: a service that starts refuses connections, and then responds with 404 or 5xx."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        request = urllib.request.Request(url, body.encode() or None, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                sys.stdout.write(response.read().decode() + "\n")
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"{method} {url}: {error}") from error
            time.sleep(0.2)


if __name__ == "__main__":
    what: dict[str, Callable[..., None]] = {"topics": topics, "records": records, "http": http}
    what[sys.argv[1]](*sys.argv[2:])
