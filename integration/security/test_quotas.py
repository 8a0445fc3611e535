"""Clients above their quotas: throttle times and errors beside those of Apache Kafka 3.9, and what stock clients see."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final

import confluent_kafka
import pytest
from kafka import KafkaProducer

from pybroker.client.connection import Connection
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.tools.target import Target
from testing.process.broker import BrokerProcess
from testing.samples import T0_MS, Sample
from testing.waiting import until
from testing.wire.batches import sample_batch

KAFKA: Final = [sys.executable, "-m", "testing.process.kafka_peer", "start"]
needs_kafka = pytest.mark.skipif(shutil.which("mvn") is None or shutil.which("java") is None, reason="needs Java and Maven")
BATCH: Final = sample_batch([Sample(None, b"v" * 10_000, T0_MS)])
VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
TOLERANCE_MS: Final = 2_000
"""The time between two requests of a client is part of the formula, and differs between two brokers on a busy machine."""


@contextmanager
def client(broker: BrokerProcess, client_id: str = "quota-test") -> Iterator[Connection]:
    with closing(Connection(Target(broker.bootstrap, {}).connect())) as connection:
        connection.frames.client_id = client_id
        yield connection


def set_quota(broker: BrokerProcess, kind: str, name: str | None, key: str, value: float | None) -> None:
    """Set a quota, or remove it, and return once it is in force: Kafka publishes it after its response."""
    operation = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = EntryData(entity=[EntityData(entity_type=kind, entity_name=name)], ops=[operation])
    with client(broker, "admin") as connection:
        response = connection.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
        assert response.entries[0].error_code == 0, response
        until(lambda: (key in quotas_of(connection)) == (value is not None), f"the quota {key}")


def quotas_of(connection: Connection) -> dict[str, float]:
    response = connection.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
    return {value.key: value.value for entry in response.entries for value in entry.values}


def produce(broker: BrokerProcess) -> tuple[int, int]:
    partition = PartitionProduceData(index=0, records=BATCH)
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    with client(broker) as connection:
        response = connection.call(request, 9)
    return response.responses[0].partition_responses[0].error_code, response.throttle_time_ms


def fetch(broker: BrokerProcess) -> tuple[int, int]:
    """Return the bytes of the records, and the throttle time."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    with client(broker) as connection:
        response = connection.call(FetchRequest(max_bytes=1 << 20, min_bytes=1, session_epoch=-1, topics=topics), 11)
    size = sum(len(one.records or b"") for topic in response.responses for one in topic.partitions)
    return size, response.throttle_time_ms


def create(broker: BrokerProcess, version: int, name: str, partitions: int) -> tuple[int, int]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with client(broker) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), version)
    return response.topics[0].error_code, response.throttle_time_ms


def delete(broker: BrokerProcess, version: int, name: str) -> tuple[int, int]:
    with client(broker) as connection:
        response = connection.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), version)
    return response.responses[0].error_code, response.throttle_time_ms


def metadata(broker: BrokerProcess) -> tuple[int, int]:
    with client(broker) as connection:
        response = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    return response.topics[0].error_code, response.throttle_time_ms


def opened(port: int) -> socket.socket:
    """Return a connection that has sent a request."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(VERSIONS)
    return connection


def is_served(broker: BrokerProcess) -> bool:
    with opened(broker.port) as connection:
        try:
            return bool(connection.recv(4))
        except ConnectionResetError:
            return False


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    """Ours and Kafka's, with a topic that has one batch."""
    with ExitStack() as stack:
        made = []
        for name, command in (("ours", None), ("kafka", KAFKA)):
            broker = BrokerProcess(tmp_path_factory.mktemp(name), start_command=command)
            stack.callback(broker.close)
            broker.start()
            assert create(broker, 5, "t", 1)[0] == 0
            until(lambda broker=broker: produce(broker) == (0, 0), "the topic")  # type: ignore[misc]
            made.append(broker)
        yield made[0], made[1]


def bytes_produced(broker: BrokerProcess) -> list[tuple[int, int]]:
    set_quota(broker, "client-id", "quota-test", "producer_byte_rate", 500)
    try:
        return [produce(broker) for _ in range(4)]
    finally:
        set_quota(broker, "client-id", "quota-test", "producer_byte_rate", None)


def bytes_fetched(broker: BrokerProcess) -> list[tuple[int, int]]:
    set_quota(broker, "client-id", "quota-test", "consumer_byte_rate", 500)
    try:
        return [fetch(broker) for _ in range(4)]
    finally:
        set_quota(broker, "client-id", "quota-test", "consumer_byte_rate", None)


def changes_of_partitions(broker: BrokerProcess) -> list[tuple[int, int]]:
    set_quota(broker, "client-id", "quota-test", "controller_mutation_rate", 1)
    try:
        return [
            create(broker, 7, "within", 11),
            create(broker, 7, "last", 10),
            create(broker, 7, "beyond", 1),
            create(broker, 5, "old", 1),
            delete(broker, 5, "within"),
            delete(broker, 4, "within"),
        ]
    finally:
        set_quota(broker, "client-id", "quota-test", "controller_mutation_rate", None)


def time_of_requests(broker: BrokerProcess) -> list[tuple[int, int]]:
    """Use more than the quota by far, so that the throttle time is the longest: a window."""
    set_quota(broker, "client-id", "quota-test", "request_percentage", 0.0001)
    try:
        return [metadata(broker) for _ in range(3)]
    finally:
        set_quota(broker, "client-id", "quota-test", "request_percentage", None)


def connections(broker: BrokerProcess) -> list[tuple[int, int]]:
    with client(broker, "admin") as connection:
        operation = OpData(key="connection_creation_rate", value=1.0, remove=False)
        entry = EntryData(entity=[EntityData(entity_type="ip", entity_name="127.0.0.1")], ops=[operation])
        assert connection.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1).entries[0].error_code == 0
        until(lambda: "connection_creation_rate" in quotas_of(connection), "the quota")
        served = 0
        while is_served(broker) and served < 50:
            served += 1
        entry.ops[0].remove = True
        connection.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
        until(lambda: is_served(broker), "an end of the quota")
    return [(0 if 8 <= served <= 14 else served, 0)]


@needs_kafka
@pytest.mark.parametrize("use", [bytes_produced, bytes_fetched, changes_of_partitions, time_of_requests, connections])
def test_errors_and_throttle_times_are_those_of_kafka(
    use: Callable[[BrokerProcess], list[tuple[int, int]]], brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    ours, kafkas = map(use, brokers)
    assert [one for one, _ in ours] == [one for one, _ in kafkas]
    assert [time_ms > 0 for _, time_ms in ours] == [time_ms > 0 for _, time_ms in kafkas], (ours, kafkas)
    for (_, our_ms), (_, kafkas_ms) in zip(ours, kafkas, strict=True):
        assert abs(our_ms - kafkas_ms) <= TOLERANCE_MS, (ours, kafkas)


def test_a_client_above_its_quota_gets_its_response_and_is_not_read(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    with client(broker, "other") as other:
        other.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 9)
        set_quota(broker, "client-id", "quota-test", "producer_byte_rate", 900)
        partition = PartitionProduceData(index=0, records=BATCH)
        request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
        with client(broker) as throttled:
            began = time.monotonic()
            response = throttled.call(request, 9)
            assert response.responses[0].partition_responses[0].error_code == 0
            assert 0 < response.throttle_time_ms < 10_000
            throttled.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            assert other.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).error_code == 0
            throttled.receive()
            assert time.monotonic() - began >= response.throttle_time_ms / 1000
    broker.kill()
    broker.start()
    with client(broker, "other") as other:
        assert quotas_of(other) == {"producer_byte_rate": 900.0}
    assert produce(broker)[1] > 0, "the quota is in force after a kill"


def test_stock_producers_see_their_throttle_times(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    set_quota(broker, "client-id", None, "producer_byte_rate", 900)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="python")
    producer.send("t", b"v" * 10_000).get(30)
    times = [value for group in producer.metrics().values() for name, value in group.items() if "throttle-time-max" in name]
    assert max(times) > 0
    producer.close()
    events: list[Any] = []
    other = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "c", "throttle_cb": events.append})
    other.produce("t", b"v" * 10_000)
    until(lambda: other.poll(0.1) is not None and bool(events), "an event of throttling")
    assert events[0].throttle_time > 0


def test_a_listener_has_limits_of_its_own(start_broker: Callable[..., BrokerProcess]) -> None:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    limited, free = (probe.getsockname()[1] for probe in probes)
    for probe in probes:
        probe.close()
    broker = start_broker(
        {
            "listeners": f"CLIENTS://127.0.0.1:0,LIMITED://127.0.0.1:{limited},OTHERS://127.0.0.1:{free}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,LIMITED:PLAINTEXT,OTHERS:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "listener.name.limited.max.connections": "2",
            "listener.name.others.max.connection.creation.rate": "1",
            "quota.window.num": "2",
        }
    )
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(opened(limited)) for _ in range(3))
        assert first.recv(4)
        assert second.recv(4)
        third.settimeout(0.3)
        with pytest.raises(TimeoutError):
            third.recv(4)
        first.close()
        third.settimeout(30)
        assert third.recv(4)
        began = time.monotonic()
        for _ in range(4):
            assert stack.enter_context(opened(free)).recv(4)
        assert time.monotonic() - began >= 1
    assert is_served(broker)
