"""Stock clients at an SSL listener, with the right certificates and with wrong ones."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer, KafkaProducer

from pybroker.security.tls.certificates import issued
from testing.clients.certificates import Stores
from testing.process.broker import BrokerProcess
from testing.process.several import SeveralBrokers
from testing.waiting import until

COUNT = 300
VALUE = b"v" * 20_000
UNSUPPORTED_API_VERSIONS = bytes.fromhex("0000000a 0012 7fff 00000001 ffff")


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def context_of(stores: Stores, *, has_certificate: bool = True) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=stores.ca)
    if has_certificate:
        context.load_cert_chain(stores.client)
    return context


def librdkafka(stores: Stores, broker: BrokerProcess | SeveralBrokers) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": stores.ca,
        "ssl.certificate.location": stores.client_certificate,
        "ssl.key.location": stores.client_key,
    }


def is_served(broker: BrokerProcess, context: ssl.SSLContext) -> bool:
    """Return whether the broker responds to a request over TLS."""
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(UNSUPPORTED_API_VERSIONS)
        return bool(connection.recv(1))


async def test_stock_clients_produce_and_fetch_with_mutual_authentication(
    stores: Stores, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(stores.of_broker(ssl_client_auth="required"))
    files = {"ssl_cafile": stores.ca, "ssl_certfile": stores.client_certificate, "ssl_keyfile": stores.client_key}
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, security_protocol="SSL", **files)
    for _ in range(COUNT):
        producer.send("t", VALUE)
    producer.close()
    consumer = KafkaConsumer(
        "t", bootstrap_servers=broker.bootstrap, security_protocol="SSL", auto_offset_reset="earliest", **files
    )
    assert sum(len(next(consumer).value) for _ in range(COUNT)) == COUNT * len(VALUE)
    consumer.close()

    other = Producer(librdkafka(stores, broker))
    for _ in range(COUNT):
        other.produce("t", VALUE)
    assert other.flush(60) == 0
    reader = Consumer({**librdkafka(stores, broker), "group.id": "g", "auto.offset.reset": "earliest"})
    reader.subscribe(["t"])
    assert sum(len(message) for message in reader.consume(2 * COUNT, 60)) == 2 * COUNT * len(VALUE)
    reader.close()

    options = {"bootstrap_servers": broker.bootstrap, "security_protocol": "SSL", "ssl_context": context_of(stores)}
    async with AIOKafkaProducer(**options) as sender:
        await sender.send_and_wait("t", b"last")
    async with AIOKafkaConsumer("t", auto_offset_reset="earliest", **options) as receiver:
        assert [len((await receiver.getone()).value) for _ in range(2 * COUNT)] == [len(VALUE)] * 2 * COUNT
        assert (await receiver.getone()).value == b"last"
    broker.stop()
    assert "Traceback" not in broker.log_text
    assert "unclosed" not in broker.log_text


@pytest.mark.parametrize(
    ("limits", "count"),
    [({"max_connections": "50"}, 120), ({"queued_max_request_bytes": "1000000", "socket_request_max_bytes": "500000"}, 6)],
    ids=["connections", "memory"],
)
def test_slow_handshakes_keep_no_client_out(
    limits: dict[str, str], count: int, stores: Stores, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(stores.of_broker(**limits))
    slow = [socket.create_connection(("127.0.0.1", broker.port), timeout=30) for _ in range(count)]
    try:
        assert is_served(broker, context_of(stores))
        assert "it lasted too long while other clients waited" in broker.log_text
    finally:
        for one in slow:
            one.close()


def test_a_new_certificate_is_used_without_a_restart(
    stores: Stores, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(stores.of_broker())
    context = context_of(stores)

    def serial() -> object:
        with (
            socket.create_connection(("127.0.0.1", broker.port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            certificate = connection.getpeercert()
            assert certificate is not None
            return certificate["serialNumber"]

    before = serial()
    stores.write("broker.pem", b"nonsense")
    until(lambda: "The TLS of the listener SSL remains as it was" in broker.log_text, "the line about the bad file")
    assert serial() == before
    stores.pem("broker", issued(stores.authority, "CN=broker", ["localhost"]))
    until(lambda: serial() != before, "the new certificate")


def test_a_certificate_that_cannot_be_used_is_refused(stores: Stores, start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(stores.of_broker())
    admin = AdminClient(librdkafka(stores, broker))
    name, place = "listener.name.ssl.ssl.keystore.location", ConfigResource(ConfigResource.Type.BROKER, "1")

    def change(path: str) -> None:
        entry = ConfigEntry(name, path, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(place.restype, place.name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    with pytest.raises(KafkaException, match=f"/nope.pem for configuration {name}: cannot be read") as refusal:
        change("/nope.pem")
    assert refusal.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert name not in admin.describe_configs([place])[place].result(30)
    change(stores.client)
    assert admin.describe_configs([place])[place].result(30)[name].value == stores.client


def test_our_tools_and_a_cluster_use_tls_in_both_directions(stores: Stores, tmp_path: Path) -> None:
    overrides = stores.of_broker(ssl_client_auth="required", default_replication_factor="3", min_insync_replicas="2")
    cluster = SeveralBrokers(tmp_path, 3, overrides)
    cluster.start()
    try:
        settings = librdkafka(stores, cluster)
        producer = Producer({**settings, "acks": "all"})
        for _ in range(COUNT):
            producer.produce("t", VALUE)
        assert producer.flush(60) == 0
        topic = AdminClient(settings).list_topics("t", timeout=30).topics["t"]
        assert [len(partition.isrs) for partition in topic.partitions.values()] == [3]
        properties = f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={stores.client}\n"
        properties += f"ssl.truststore.type=PEM\nssl.truststore.location={stores.ca}\n"
        file = stores.write("client.properties", properties.encode())
        arguments = ["--bootstrap-server", cluster.bootstrap, "--command-config", file, "--list"]
        command = [sys.executable, "-m", "pybroker", "tool", "kafka-topics", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert "t" in done.stdout.split()
    finally:
        cluster.stop()
