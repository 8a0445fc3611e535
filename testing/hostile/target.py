"""The broker that is attacked: it has secrets, whatever a stranger sees or changes shows, and an honest client is beside."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from testing.clients.certificates import Stores
from testing.hostile.states import login
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

HUSH: Final = "hush"
"""A part of the names and contents that no stranger may learn. No request has it."""
ADMIN, SECRET = "admin", "hush-password"
MALLORY, KNOWN_PASSWORD = "mallory", "nothing-secret"
KNOWN, HIDDEN, HONEST = "known", f"{HUSH}-topic", "honest"
GROUP: Final = f"{HUSH}-group"
USER: Final = f"{HUSH}-user"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
TIMEOUT_S: Final = 60
PAUSE_S: Final = 0.1


class Target:
    """A broker with a listener for logins and one for TLS."""

    def __init__(self, folder: Path) -> None:
        self.stores = Stores(folder)
        self.tls_port = free_port()
        self.broker = BrokerProcess(folder, self._settings())
        self.broker.start()
        self._admin = AdminClient(self._client())
        self._fill()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.broker.port

    @property
    def tls_address(self) -> tuple[str, int]:
        return "127.0.0.1", self.tls_port

    def context(self) -> ssl.SSLContext:
        """Return the TLS of a client with a certificate."""
        context = ssl.create_default_context(cafile=self.stores.ca)
        context.load_cert_chain(self.stores.client)
        return context

    def state(self) -> dict[str, object]:
        """Return what an attack must not change."""
        admin = self._admin
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
        resources = [ConfigResource(ResourceType.BROKER, "1"), *(ConfigResource(ResourceType.TOPIC, one) for one in topics)]
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        groups = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        return {
            "topics": {name: len(topic.partitions) for name, topic in topics.items()},
            "offsets": {name: self._offsets(name) for name in (KNOWN, HIDDEN)},
            "configs": {
                str(resource): {name: entry.value for name, entry in future.result(TIMEOUT_S).items()}
                for resource, future in admin.describe_configs(resources).items()
            },
            "groups": sorted(one.group_id for one in groups.valid),
            "acls": sorted(map(str, admin.describe_acls(everything).result(TIMEOUT_S))),
            "users": sorted(admin.describe_user_scram_credentials().result(TIMEOUT_S)),
        }

    def close(self) -> None:
        self.broker.kill()  # `close` judges the turns of its start, too

    def _settings(self) -> dict[str, str]:
        users = f'{PLAIN_MODULE} required user_{ADMIN}="{SECRET}" user_{MALLORY}="{KNOWN_PASSWORD}";'
        return {
            **self.stores.of_broker(),
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:{self.tls_port}",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": users,
            "pybroker.scram.users": f"SCRAM-SHA-256=[name={USER},password={SECRET}]",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "connection.failed.authentication.delay.ms": "0",
            "num.partitions": "1",
        }

    def _client(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": SECRET,
        }

    def _fill(self) -> None:
        topics = [NewTopic(name, 1, config={"retention.bytes": "1048576"}) for name in (KNOWN, HIDDEN, HONEST)]
        for future in self._admin.create_topics(topics).values():
            future.result(TIMEOUT_S)
        binding = AclBinding(
            ResourceType.TOPIC, HIDDEN, ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.READ, AclPermissionType.ALLOW
        )
        for future in self._admin.create_acls([binding]).values():
            future.result(TIMEOUT_S)
        for topic in (KNOWN, HIDDEN):
            write(self.address, topic, f"{HUSH}-record".encode())
        consumer = Consumer({**self._client(), "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition(HIDDEN, 0, 1)], asynchronous=False)
        consumer.close()

    def _offsets(self, topic: str) -> tuple[int, int]:
        consumer = Consumer({**self._client(), "group.id": "none"})
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return low, high


def write(address: tuple[str, int], topic: str, value: bytes) -> None:
    """Log in over a new connection, and write a record."""
    with raw.Connection(f"{address[0]}:{address[1]}", TIMEOUT_S) as connection:
        connection.socket.sendall(login(ADMIN, SECRET))
        for _ in range(2):
            connection.receive(1)
        batch = sample_batch([Sample(None, value, T0_MS)])
        response = connection.call(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: batch}))
    reader = raw.Reader(response)
    assert (reader.int32(), reader.string(), reader.int32(), reader.int32(), reader.int16()) == (1, topic, 1, 0, 0)


class Honest:
    """An honest client, which logs in and writes, and does a handshake of TLS, again and again over new connections.

    Attributes:
        served: how often it was served.
        longest_s: how long it waited, at the longest.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.served, self.longest_s = 0, 0.0
        self._error: BaseException | None = None
        self._stop = threading.Event()

    def serve(self) -> None:
        context = self._target.context()
        try:
            while not self._stop.wait(PAUSE_S):
                began = time.monotonic()
                write(self._target.address, HONEST, b"honest")
                with (
                    socket.create_connection(self._target.tls_address, TIMEOUT_S) as connection,
                    context.wrap_socket(connection, server_hostname="localhost") as secured,
                ):
                    secured.sendall(raw.request(raw.API_VERSIONS, 0, b""))
                    assert secured.recv(1)
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                self.served += 1
        except BaseException as error:  # the one that stops it raises it
            self._error = error

    @contextlib.contextmanager
    def beside(self) -> Iterator[Honest]:
        """Be served until the end. Raises what kept it from that."""
        thread = threading.Thread(target=self.serve, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(2 * TIMEOUT_S)
        if self._error is not None:
            raise self._error
