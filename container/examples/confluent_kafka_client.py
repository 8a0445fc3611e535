"""confluent-kafka (librdkafka) against the broker: make a topic, produce, consume in a group.

python confluent_kafka_client.py kafka:9092
"""

import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 100
TIMEOUT_S = 30
TOPIC = "parcels"


def main(bootstrap: str) -> None:
    """Print how many records came back; an error ends it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=3)])[TOPIC].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(TOPIC, key=str(number), value=f"parcel {number}")
    if producer.flush(TIMEOUT_S):
        sys.exit("not all records were delivered")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "confluent-kafka", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    seen, deadline = 0, time.monotonic() + TIMEOUT_S
    while seen < RECORDS and time.monotonic() < deadline:
        for record in consumer.consume(RECORDS, timeout=1):
            if record.error():
                raise KafkaException(record.error())
            seen += 1
    consumer.close()
    if seen < RECORDS:
        sys.exit(f"only {seen} of {RECORDS} records came back")
    print(f"confluent-kafka: {seen} records produced and consumed at {bootstrap}")


if __name__ == "__main__":
    main(sys.argv[1])
