"""A stock client adds and removes ACLs for a user that has logged in; they survive the death of the broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import TopicAuthorizationFailedError

from integration.security.sasl import USER, Login, kafka_python, login, sasl_listener
from pybroker.config.acl_settings import AUTHORIZERS
from testing.process.broker import BrokerProcess

TOPIC = "orders"
ADMIN, BOB = login(), login("bob", "bob-secret")


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"authorizer.class.name": AUTHORIZERS[1], "super.users": f"User:{USER}"}
    process = BrokerProcess(tmp_path_factory.mktemp("acls"), {**sasl_listener(), **settings})
    process.start()
    yield process
    process.close()


def write(broker: BrokerProcess, user: Login) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_block_ms=30_000, **kafka_python(user))
    with closing(producer):
        producer.send(TOPIC, b"v").get(timeout=30)


def admin(broker: BrokerProcess) -> Any:
    return closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap, **kafka_python(ADMIN)))


def test_a_user_may_do_what_an_acl_allows_until_it_is_removed(broker: BrokerProcess) -> None:
    write(broker, ADMIN)
    with pytest.raises(TopicAuthorizationFailedError):
        write(broker, BOB)
    assert "Principal = User:bob is Denied operation = DESCRIBE" in broker.log_text
    with admin(broker) as client:
        allowed = ACL("User:bob", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, TOPIC))
        assert client.create_acls([allowed])["failed"] == []
    write(broker, BOB)
    broker.kill()
    broker.start()
    write(broker, BOB)
    with admin(broker) as client:
        everything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        client.delete_acls([ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, everything)])
    with pytest.raises(TopicAuthorizationFailedError):
        write(broker, BOB)
