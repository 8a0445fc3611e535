"""kafka-python: an order that was sent is read by a group, which commits it."""

from kafka import KafkaConsumer, KafkaProducer


def test_an_order_is_read_once(kafka_broker, kafka_topic):
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    producer.send(kafka_topic, b"order 1").get(timeout=10)
    producer.close()
    consumer = KafkaConsumer(
        kafka_topic, bootstrap_servers=kafka_broker.bootstrap, group_id="billing", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"order 1"
    consumer.commit()
    consumer.close()
    assert kafka_broker.groups()["billing"].lag == 0
