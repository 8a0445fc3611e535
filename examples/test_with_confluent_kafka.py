"""confluent-kafka: a transaction is written once, although the acknowledgement of its records is lost."""

from confluent_kafka import Producer

from pybroker.testing import Broker


def test_a_payment_is_written_once():
    with Broker.in_thread() as broker:
        broker.create_topic("payments")
        lost = broker.faults.add(api="Produce", topic="payments", close=True, when="after", times=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "pay"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("payments", b"payment 1")
        producer.commit_transaction(30)
        assert lost.count == 1
        assert [record.value for record in broker.consume("payments", committed=True)] == [b"payment 1"]
