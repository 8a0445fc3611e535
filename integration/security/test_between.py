"""Brokers of a cluster that log in at each other: what clients see while logins are renewed, leaders die and users change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

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

from integration.security.sasl import Login, confluent, login, sasl_listener
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.security.sasl.scram import MODULE
from testing.process.several import SeveralBrokers
from testing.waiting import until

WAIT_S = 60
PARTITIONS = 3
REAUTH_MS = 4_000
SECRET = "the brokers' secret"
MODULE_OF_BROKERS = f'{MODULE} required username="broker" password="{SECRET}";'
ADMIN, CAROL = login(), login("carol", "carol's secret", "SCRAM-SHA-512")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[SeveralBrokers]:
    settings = {
        **sasl_listener("PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"),
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": MODULE_OF_BROKERS,
        "pybroker.scram.users": f"SCRAM-SHA-256=[name=broker,password={SECRET}]",
        "listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": str(REAUTH_MS),
        "authorizer.class.name": AUTHORIZERS[0],
        "super.users": "User:alice;User:broker",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
    }
    with SeveralBrokers(tmp_path, 3, settings) as started:
        yield started


def client(bootstrap: str, user: Login) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 100, **confluent(user)}


def allow(admin: AdminClient, kind: ResourceType, name: str) -> None:
    pattern, everything = ResourcePatternType.LITERAL, AclOperation.ALL
    binding = AclBinding(kind, name, pattern, "User:carol", "*", everything, AclPermissionType.ALLOW)
    for done in admin.create_acls([binding]).values():
        done.result(WAIT_S)


def write(bootstrap: str, value: bytes, transaction: str | None = None) -> None:
    """Write a record to each partition as carol. Raises KafkaException, RuntimeError."""
    producer = Producer({**client(bootstrap, CAROL), "acks": "all", **({"transactional.id": transaction} if transaction else {})})
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


def read(bootstrap: str, count: int) -> set[bytes]:
    consumer = Consumer({**client(bootstrap, CAROL), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: list[bytes] = []
    until(
        lambda: values.extend(one.value() for one in consumer.consume(100, 1) if not one.error()) or len(values) >= count, "all"
    )
    consumer.close()
    return set(values)


def each_broker(brokers: SeveralBrokers, is_so: Callable[[AdminClient], object], what: str) -> None:
    """Wait until something is so on every broker, asked at itself."""
    for bootstrap in brokers.bootstrap.split(","):
        asked = AdminClient(client(bootstrap, ADMIN))
        until(partial(is_so, asked), f"{what} at {bootstrap}", WAIT_S)


def acls_of_carol(admin: AdminClient) -> int:
    kinds = ResourceType.ANY, None, ResourcePatternType.ANY, "User:carol", None, AclOperation.ANY, AclPermissionType.ANY
    return len(admin.describe_acls(AclBindingFilter(*kinds)).result(WAIT_S))


def test_clients_work_while_brokers_log_in_again_and_die(brokers: SeveralBrokers) -> None:
    admin = AdminClient(client(brokers.bootstrap, ADMIN))
    admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(WAIT_S)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
    user = UserScramCredentialUpsertion("carol", credential, CAROL["password"].encode())
    for done in admin.alter_user_scram_credentials([user]).values():
        done.result(WAIT_S)
    for kind, name in ((ResourceType.TOPIC, "t"), (ResourceType.GROUP, "g"), (ResourceType.TRANSACTIONAL_ID, "x")):
        allow(admin, kind, name)
    values = set()
    for number in (1, 2, 3):
        values |= {b"before %d" % number, b"after %d" % number}
        write(brokers.bootstrap, b"before %d" % number, "x")
        process = brokers.pids()[number]
        brokers.kill(number)
        write(brokers.bootstrap, b"after %d" % number)
        until(partial(is_other, brokers, number, process), "the broker starts again", WAIT_S)
        each_broker(brokers, lambda asked: acls_of_carol(asked) == 3, "the ACLs are there")
        each_broker(brokers, is_whole, "all replicas are in sync")
    assert read(brokers.bootstrap, len(values) * PARTITIONS) == values
    for line in ("login has ended", "whose login", "login as", "Denied", SECRET):
        assert line not in brokers.log_text


def is_other(brokers: SeveralBrokers, number: int, process: int) -> bool:
    return brokers.pids()[number] != process


def is_whole(admin: AdminClient) -> bool:
    found = admin.list_topics("t", timeout=WAIT_S).topics["t"].partitions.values()
    return all(len(one.isrs) == len(one.replicas) == 3 for one in found)
