"""Brokers of a cluster that log in at each other: what clients see while logins are renewed, leaders die and users change."""

from __future__ import annotations

import json
import os
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from integration.durability.test_etcd_access import PASSWORD, steps_to_users
from integration.security.sasl import PLAIN_MODULE, USERS, Login, confluent, login, sasl_listener
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.security.sasl.scram import MODULE
from testing.clients.certificates import Stores
from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.process.our_commands import run_command
from testing.process.several import SeveralBrokers
from testing.waiting import until

WAIT_S = 60
PARTITIONS = 3
REAUTH_MS = 4_000
RATE = 100_000_000
SECRET = "the brokers' secret"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
SETTINGS = {
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "pybroker.scram.users": f"SCRAM-SHA-256=[name=broker,password={SECRET}]",
    "authorizer.class.name": AUTHORIZERS[0],
    "super.users": "User:alice;User:broker",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}
LONG = pytest.mark.skipif("PYBROKER_TEST_LONG" not in os.environ, reason="takes long: PYBROKER_TEST_LONG=1 runs it")
ADMIN, CAROL = login(), login("carol", "carol's secret", "SCRAM-SHA-512")


class OneMachine(SeveralBrokers):
    """Brokers of `--brokers 3`, at a listener SASL_PLAINTEXT."""

    security: Mapping[str, str] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 3, SETTINGS | sasl_listener(MECHANISMS) | module_for("sasl_plaintext"))

    def die(self, number: int) -> None:
        """Kill a broker. It is started again."""
        process = self.pids()[number]
        self.kill(number)
        until(lambda: self.pids()[number] != process, "the broker starts again", WAIT_S)


class ThreeMachines:
    """Brokers with an etcd that has TLS and wants a password, at a listener SASL_SSL."""

    def __init__(self, folder: Path) -> None:
        self._held = ExitStack()
        stores = Stores(folder)
        certificates = WithoutClients(folder / "etcd")
        etcd = self._held.enter_context(etcd_peer.running(certificates=certificates))
        for path, message in steps_to_users():
            request = urllib.request.Request(f"{etcd.urls}/v3/auth/{path}", data=json.dumps(message).encode())
            urllib.request.urlopen(request, timeout=WAIT_S, context=certificates.context()).close()
        self.security = {"security.protocol": "SASL_SSL", "ssl.ca.location": stores.ca}
        settings = {
            **SETTINGS, **stores.of_broker(), **sasl_listener(MECHANISMS), **module_for("sasl_ssl"),
            "listeners": "SASL_SSL://127.0.0.1:0",
            "inter.broker.listener.name": "SASL_SSL",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
            "metadata.store": f"etcd:{etcd.urls}",
            "metadata.store.user": "pybroker",
            "metadata.store.password": PASSWORD,
            "metadata.store.ssl.ca.file": str(certificates.ca[0]),
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }  # fmt: skip
        self._brokers = [BrokerProcess(folder / str(number), settings | {"node.id": str(number)}) for number in (1, 2, 3)]

    def __enter__(self) -> Self:
        for broker in self._brokers:
            broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self._brokers:
            broker.close()
        self._held.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self._brokers)

    @property
    def log_text(self) -> str:
        return "".join(broker.log_text for broker in self._brokers)

    def die(self, number: int) -> None:
        """Kill a broker, and start it again."""
        self._brokers[number - 1].kill()
        self._brokers[number - 1].start()


class WithoutClients(etcd_peer.Certificates):
    """Certificates of an etcd whose clients have none, but a user."""

    def options(self) -> list[str]:
        certificate, key = self.server
        return ["--cert-file", str(certificate), "--key-file", str(key)]

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca[0])


Brokers = OneMachine | ThreeMachines


def module_for(listener: str) -> dict[str, str]:
    """Return the settings by which brokers log in at a listener of others, and again after some seconds."""
    key = f"listener.name.{listener}.scram-sha-256"
    module = f'{MODULE} required username="broker" password="{SECRET}";'
    return {f"{key}.sasl.jaas.config": module, f"{key}.connections.max.reauth.ms": str(REAUTH_MS)}


@pytest.fixture(params=[OneMachine, pytest.param(ThreeMachines, marks=LONG)])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    with request.param(tmp_path) as started:
        yield started


def client(brokers: Brokers, user: Login, bootstrap: str | None = None) -> dict[str, Any]:
    quick = {"retry.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    return {"bootstrap.servers": bootstrap or brokers.bootstrap, **quick, **confluent(user), **brokers.security}


def allow(admin: AdminClient, kind: ResourceType, name: str) -> None:
    pattern, everything = ResourcePatternType.LITERAL, AclOperation.ALL
    binding = AclBinding(kind, name, pattern, "User:carol", "*", everything, AclPermissionType.ALLOW)
    for done in admin.create_acls([binding]).values():
        done.result(WAIT_S)


def write(brokers: Brokers, value: bytes, transaction: str | None = None) -> None:
    """Write a record to each partition as carol. Raises KafkaException, RuntimeError."""
    producer = Producer({**client(brokers, CAROL), "acks": "all", **({"transactional.id": transaction} if transaction else {})})
    errors: list[object] = []
    if transaction:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
    for number in range(PARTITIONS):
        producer.produce("t", value, partition=number, on_delivery=lambda error, _: error and errors.append(error))
    if transaction:
        producer.commit_transaction(WAIT_S)
    if producer.flush(WAIT_S) or errors:
        raise RuntimeError(str(errors))


def read(brokers: Brokers, count: int) -> set[bytes]:
    consumer = Consumer({**client(brokers, CAROL), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: list[bytes] = []
    until(
        lambda: values.extend(one.value() for one in consumer.consume(100, 1) if not one.error()) or len(values) >= count, "all"
    )
    consumer.close()
    return set(values)


def each_broker(brokers: Brokers, is_so: Callable[[AdminClient], object], what: str) -> None:
    """Wait until something is so on every broker, asked at itself."""
    for bootstrap in brokers.bootstrap.split(","):
        asked = AdminClient(client(brokers, ADMIN, bootstrap))
        until(partial(is_so, asked), f"{what} at {bootstrap}", WAIT_S)


def acls_of_carol(admin: AdminClient) -> int:
    kinds = ResourceType.ANY, None, ResourcePatternType.ANY, "User:carol", None, AclOperation.ANY, AclPermissionType.ANY
    return len(admin.describe_acls(AclBindingFilter(*kinds)).result(WAIT_S))


def test_clients_work_while_brokers_log_in_again_and_die(brokers: Brokers, tmp_path: Path) -> None:
    admin = AdminClient(client(brokers, ADMIN))
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(WAIT_S)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    user = UserScramCredentialUpsertion("carol", credential, CAROL["password"].encode())
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(WAIT_S)
    files = tmp_path / "admin.properties"
    files.write_text(java_properties(brokers))
    at = ("--command-config", str(files), "--entity-type", "users", "--entity-name", "carol")
    change = ("--alter", "--add-config", f"producer_byte_rate={RATE}")
    assert run_command("kafka-configs", "--bootstrap-server", brokers.bootstrap, *at, *change).code == 0
    for kind, name in ((ResourceType.TOPIC, "t"), (ResourceType.GROUP, "g"), (ResourceType.TRANSACTIONAL_ID, "x")):
        allow(admin, kind, name)
    values = set()
    for number in (1, 2, 3):
        values |= {b"before %d" % number, b"after %d" % number}
        write(brokers, b"before %d" % number, "x")
        brokers.die(number)
        write(brokers, b"after %d" % number)
        each_broker(brokers, lambda asked: acls_of_carol(asked) == 3, "the ACLs are there")
        each_broker(brokers, is_whole, "all replicas are in sync")
    assert read(brokers, len(values) * PARTITIONS) == values
    for bootstrap in brokers.bootstrap.split(","):
        found = run_command("kafka-configs", "--bootstrap-server", bootstrap, *at, "--describe")
        assert "producer_byte_rate=1.0E8" in found.out, found.err
    for line in ("login has ended", "whose login", "login as", "Denied", SECRET):
        assert line not in brokers.log_text


def java_properties(brokers: Brokers) -> str:
    """Return the settings of the administrator as a Java client has them."""
    lines = {
        "security.protocol": brokers.security.get("security.protocol", "SASL_PLAINTEXT"),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{ADMIN["user"]}" password="{ADMIN["password"]}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": brokers.security.get("ssl.ca.location", ""),
    }
    return "".join(f"{name}={text}\n" for name, text in lines.items() if text)


def is_whole(admin: AdminClient) -> bool:
    found = admin.list_topics("t", timeout=WAIT_S).topics["t"].partitions.values()
    return all(len(one.isrs) == len(one.replicas) == 3 for one in found)
