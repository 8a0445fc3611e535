"""`pybroker configs` and `transactions` on a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.terminal.profiles import target_of
from pybroker.terminal.wire import wire_client
from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import lines, objects, refusal


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread() as broker:
        broker.create_topic("a")
        yield broker


def test_settings_of_a_topic_are_set_and_unset(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert lines(at, "configs", "get", "--topic", "a") == ["No setting differs from its default: --all shows them."]
    assert lines(at, "configs", "set", "--topic", "a", "retention.ms=5") == ["Changed topic a: retention.ms=5"]
    (row,) = objects(at, "configs", "get", "--topic", "a")
    assert (row["name"], row["value"], row["source"]) == ("retention.ms", "5", "topic")
    (row,) = objects(at, "configs", "get", "--topic", "a", "cleanup.policy")
    assert (row["value"], row["source"]) == ("delete", "default")
    assert lines(at, "configs", "unset", "--topic", "a", "retention.ms") == ["Changed topic a: without retention.ms"]
    assert objects(at, "configs", "get", "--topic", "a") == []
    assert len(objects(at, "configs", "get", "--topic", "a", "--all")) > 20


def test_settings_of_brokers_and_groups_are_set(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    for kind in (["--broker", "1"], ["--all-brokers"]):
        lines(at, "configs", "set", *kind, "log.cleaner.threads=2")
        assert ["log.cleaner.threads", "2"] in [[row["name"], row["value"]] for row in objects(at, "configs", "get", *kind)]
        lines(at, "configs", "unset", *kind, "log.cleaner.threads")
    lines(at, "configs", "set", "--group", "g", "consumer.session.timeout.ms=50000")
    assert [row["value"] for row in objects(at, "configs", "get", "--group", "g")] == ["50000"]


def test_quotas_are_set_and_removed(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    lines(at, "configs", "set", "--client", "c", "producer_byte_rate=1000")
    lines(at, "configs", "set", "--user", "<default>", "consumer_byte_rate=7")
    (row,) = objects(at, "configs", "get", "--client", "c")
    assert row == {"user": None, "client-id": "c", "ip": None, "name": "producer_byte_rate", "value": 1000.0}
    assert objects(at, "configs", "get", "--user", "<default>")[0]["user"] == "<default>"
    lines(at, "configs", "unset", "--client", "c", "producer_byte_rate")
    assert lines(at, "configs", "get", "--client", "c") == ["No quota is set."]


def test_what_cannot_be_is_refused(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert refusal(at, "configs", "set", "--topic", "a", "retention.ms=x").startswith("topic a: INVALID_CONFIG: ")
    assert "Did you mean 'retention.ms'" in refusal(at, "configs", "get", "--topic", "a", "retention.mss")
    assert refusal(at, "configs", "get", "--topic", "b").startswith("topic b: UNKNOWN_TOPIC_OR_PARTITION")
    assert refusal(at, "configs", "get", "--broker", "7") == "broker 7: there is no such broker; there are 1"
    assert "name one of" in refusal(at, "configs", "get", code=2)
    assert "name one of" in refusal(at, "configs", "get", "--topic", "a", "--user", "u", code=2)
    assert refusal(at, "configs", "set", "--user", "u", "producer_byte_rate=x") == "producer_byte_rate=x: must be a number"


def test_transactions_are_listed_described_and_aborted(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert refusal(at, "transactions", "abort", "tx", "--yes").startswith("transactional id tx: TRANSACTIONAL_ID_NOT_FOUND")
    producer = Producer({"bootstrap.servers": at, "transactional.id": "tx"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("a", b"1")
    producer.flush(10)
    (row,) = objects(at, "transactions", "list")
    assert (row["transactional_id"], row["state"]) == ("tx", "Ongoing")
    (row,) = objects(at, "transactions", "describe", "tx")
    assert (row["state"], row["partitions"]) == ("Ongoing", ["a-0"])
    assert lines(at, "transactions", "find-hanging", "--older-than", "0s") == ["No transaction hangs."]
    (row,) = objects(at, "transactions", "find-hanging", "--older-than", "0s", "--all")
    assert (row["topic"], row["partition"], row["start_offset"], row["transactional_id"]) == ("a", 0, 0, "tx")
    assert lines(at, "transactions", "abort", "tx", "--yes") == ["Aborted the transaction of tx"]
    assert objects(at, "transactions", "list", "--state", "Empty")[0]["transactional_id"] == "tx"
    assert refusal(at, "transactions", "abort", "tx", "--yes").endswith("has no open transaction: it is Empty")


def test_a_transaction_that_no_coordinator_ends_is_found_and_aborted() -> None:
    with Broker.in_thread({"transaction.partition.verification.enable": False}) as broker:
        at = broker.bootstrap
        broker.create_topic("a")
        with wire_client(target_of({}, bootstrap=at)) as client:
            record = Record(Offset(0), 1_795_248_000_000, None, b"open")
            batch = build_batch(
                [record], producer_id=ProducerId(7000), producer_epoch=ProducerEpoch(0), base_sequence=0, is_transactional=True
            )
            leader = client.leader("a", 0)
            data = TopicProduceData(name="a", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
            produced = leader.call(ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        broker.produce("a", "later")
        assert lines(at, "consume", "a") == [], "committed readers are held up"
        (row,) = objects(at, "transactions", "find-hanging", "--older-than", "0s")
        assert (row["topic"], row["partition"], row["start_offset"], row["producer_id"]) == ("a", 0, 0, 7000)
        place = ("--topic", "a", "--partition", "0", "--start-offset")
        assert "has no open transaction that starts" in refusal(at, "transactions", "abort", *place, "1", "--yes")
        assert lines(at, "transactions", "abort", *place, "0", "--yes") == ["Aborted the transaction of producer 7000 in a-0"]
        assert lines(at, "transactions", "find-hanging", "--older-than", "0s") == ["No transaction hangs."]
        assert lines(at, "consume", "a") == ["later"]
        assert "name a TRANSACTIONAL_ID" in refusal(at, "transactions", "abort", "--yes", code=2)
