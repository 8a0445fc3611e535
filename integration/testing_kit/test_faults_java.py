"""Java's clients of Kafka 3.9 meet faults as those of Python do: they try again or raise, and what was acknowledged is kept."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from integration.testing_kit.test_faults import COUNT, RULES
from pybroker.testing import ThreadBroker
from testing.clients.java_clients import JavaClients
from testing.waiting import WAIT_S

TEXTS = [str(number) for number in range(COUNT)]
IMPATIENT = ("request.timeout.ms=400", "delivery.timeout.ms=60000")
MORE_RULES: list[dict[str, Any]] = [
    {"api": "Produce", "drop": True, "nth": 2},
    {"api": "Produce", "drop": True, "when": "after", "nth": 2},
    {"api": "Produce", "mute": True, "nth": 2, "for_s": 5},
]

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClients]:
    clients = JavaClients("3.9.2", tmp_path_factory.mktemp("java"))
    yield clients
    clients.close()


def values(broker: ThreadBroker, *, committed: bool = False) -> list[str]:
    return [(record.value or b"").decode() for record in broker.consume("orders", committed=committed)]


@pytest.mark.parametrize("rule", [*RULES, *MORE_RULES], ids=lambda rule: "-".join(map(str, rule.values())))
def test_a_producer_tries_again_and_nothing_is_lost_or_doubled(
    broker: ThreadBroker, java: JavaClients, rule: dict[str, Any]
) -> None:
    broker.create_topic("orders")
    added = broker.faults.add(**rule)
    settings = IMPATIENT if rule in MORE_RULES else ()
    assert java.do("produce", broker.bootstrap, "orders", COUNT, *settings) == TEXTS
    assert added.count >= 1, "the client has met the fault"
    broker.faults.clear()
    assert values(broker) == TEXTS


@pytest.mark.parametrize(
    ("rule", "noticed"),
    [
        ({"error": "NOT_LEADER_OR_FOLLOWER", "times": 2}, []),
        ({"delay_s": 0.2, "times": 1}, []),
        ({"close": True, "times": 1}, []),
        ({"cut": 20, "times": 1}, []),
        ({"throttle_ms": 100, "times": 1}, []),
        ({"mute_s": 0.2}, []),
        ({"corrupt_crc": True, "times": 1}, ["KafkaException"]),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_a_consumer_reads_each_record_once(
    broker: ThreadBroker, java: JavaClients, rule: dict[str, Any], noticed: list[str]
) -> None:
    broker.produce("orders", *TEXTS)
    added = broker.faults.add(api="Fetch", topic="orders", **rule)
    assert java.do("consume", broker.bootstrap, "orders", COUNT) == noticed + TEXTS
    assert added.count >= 1, "the client has met the fault"


def test_an_error_that_no_client_tries_again_is_raised(broker: ThreadBroker, java: JavaClients) -> None:
    broker.create_topic("orders")
    broker.faults.add(api="Produce", error="TOPIC_AUTHORIZATION_FAILED")
    assert java.do("produce", broker.bootstrap, "orders", 1) == ["TopicAuthorizationException"]
    assert values(broker) == []


def test_a_directory_that_has_failed_is_written_to_after_a_restart(broker: ThreadBroker, java: JavaClients) -> None:
    broker.create_topic("orders")
    broker.faults.add(disk_error="EIO")
    restart = threading.Timer(0.3, lambda: (broker.faults.clear(), broker.restart()))
    restart.start()
    assert java.do("produce", broker.bootstrap, "orders", COUNT) == TEXTS
    restart.join(WAIT_S)
    assert values(broker) == TEXTS


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
def test_a_producer_that_another_one_has_fenced_raises(broker: ThreadBroker, java: JavaClients, api: str) -> None:
    broker.create_topic("orders")
    java.do("begin", broker.bootstrap, "orders", "pay")
    rule = broker.faults.add(api=api, transactional_id="pay", fence=True)
    assert java.do("commit", "orders")[0] in {"ProducerFencedException", "InvalidProducerEpochException"}
    assert rule.count == 1
    assert values(broker, committed=True) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(("action", "event"), [("rebalance", "revoked"), ("expire", "lost")])
def test_a_member_gets_its_partitions_again(
    broker: ThreadBroker, java: JavaClients, protocol: str, action: str, event: str
) -> None:
    broker.produce("orders", b"1")
    assert java.do("join", broker.bootstrap, "readers", "orders", protocol) == ["assigned"]
    rule = broker.faults.add(group="readers", **{action: True})
    assert java.do("events", 3) == ["assigned", event, "assigned"]
    assert rule.count == 1
    java.do("leave")
