"""Stock clients log in over TLS, and their principal is that of the login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from integration.security.sasl import USERS, confluent, login
from testing.clients.certificates import Stores
from testing.process.broker import BrokerProcess

FIRST = login("first", "of-first", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def broker(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        **stores.of_broker(),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
        "pybroker.scram.users": "SCRAM-SHA-512=[name=first,password=of-first]",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:first;User:ANONYMOUS",
    }
    process = BrokerProcess(tmp_path_factory.mktemp("sasl-ssl"), settings)
    process.start()
    yield process
    process.close()


def written_by_confluent(broker: BrokerProcess, stores: Stores, named: dict[str, str]) -> list[Any]:
    """Return the errors of a record, or of the login."""
    errors: list[Any] = []
    settings = {**confluent(named), "security.protocol": "SASL_SSL", "ssl.ca.location": stores.ca}
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "error_cb": errors.append, **settings})
    done: list[Any] = []
    producer.produce("t", b"confluent-kafka", on_delivery=lambda error, message: done.append(error))
    while not done and not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        producer.poll(0.2)
    producer.purge()
    return done or errors


def test_a_user_without_permissions_is_no_super_user(broker: BrokerProcess, stores: Stores) -> None:
    (error, *_) = written_by_confluent(broker, stores, dict(login()))
    assert error.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
