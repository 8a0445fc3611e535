"""kafka-python against the broker: make a topic, produce, consume in a group.

python kafka_python_client.py kafka:9092
"""

import sys

from kafka import KafkaConsumer, KafkaProducer

RECORDS = 100


def main(bootstrap: str) -> None:
    """Print how many records came back; an error ends it."""
    with KafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send("greetings", key=b"kafka-python", value=b"hello %d" % number)
        producer.flush(timeout=30)
    consumer = KafkaConsumer(
        "greetings",
        bootstrap_servers=bootstrap,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    seen = 0
    for record in consumer:
        seen += record.key == b"kafka-python"
        if seen == RECORDS:
            break
    consumer.close()
    if seen < RECORDS:
        sys.exit(f"only {seen} of {RECORDS} records came back")
    print(f"kafka-python: {seen} records produced and consumed at {bootstrap}")


if __name__ == "__main__":
    main(sys.argv[1])
