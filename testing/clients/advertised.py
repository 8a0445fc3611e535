"""A stock client in a network namespace: `python -m testing.clients.advertised BOOTSTRAP TOPIC`.

It prints the address that the broker advertised, sends a record to that address and reads it back. The exit code is 1 when that
fails.
"""

from __future__ import annotations

import sys
import uuid

from confluent_kafka import Consumer, Producer

TIMEOUT_S = 20


def main() -> int:
    bootstrap, topic = sys.argv[1:]
    common = {"bootstrap.servers": bootstrap, "topic.metadata.refresh.fast.interval.ms": 50}
    producer = Producer({**common, "message.timeout.ms": TIMEOUT_S * 1000})
    value, outcome = uuid.uuid4().hex.encode(), []
    producer.produce(topic, value, on_delivery=lambda error, _message: outcome.append(error))
    [broker] = producer.list_topics(timeout=TIMEOUT_S).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    if producer.flush(TIMEOUT_S) or outcome != [None]:
        print("not sent:", *map(str, outcome), file=sys.stderr)
        return 1
    consumer = Consumer({**common, "group.id": value.decode(), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        while (message := consumer.poll(TIMEOUT_S)) is not None:
            if message.error() is None and message.value() == value:
                return 0
    finally:
        consumer.close()
    print("not received", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
