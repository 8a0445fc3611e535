"""A broker advertises a host that the others cannot resolve: one line shows it, and the others serve their clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.sharing.turns.watchdog import SWITCH
from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60
LINE = "Broker 3 at nowhere.invalid:9092 cannot be reached now, which is tried again: the host has no address here"


def test_a_broker_at_an_address_that_others_cannot_resolve_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    with etcd_peer.running() as etcd:
        settings = [{"metadata.store": f"etcd:{etcd.urls}/cluster", "node.id": str(number)} for number in (1, 2, 3)]
        settings[2]["advertised.listeners"] = "PLAINTEXT://nowhere.invalid:9092"
        brokers = [BrokerProcess(tmp_path / one["node.id"], one) for one in settings]
        try:
            for broker in brokers:
                broker.start()
            own = "advertised.listeners=PLAINTEXT://nowhere.invalid:9092: this machine cannot resolve nowhere.invalid"
            until(lambda: own in brokers[2].log_text, "broker 3 warns of its address")
            admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap})
            assignment = [[3, 1], [1, 2]]  # followers of broker 3 cannot reach it
            admin.create_topics([NewTopic("t", 2, replica_assignment=assignment)])["t"].result(TIMEOUT_S)
            producer = Producer({"bootstrap.servers": brokers[0].bootstrap, "acks": "all"})
            errors: list[object] = []
            for _ in range(20):
                producer.produce("t", b"x", partition=1, callback=lambda error, _: errors.append(error))
            assert producer.flush(TIMEOUT_S) == 0
            assert errors == [None] * 20
            until(lambda: LINE in brokers[0].log_text, "broker 1 cannot reach broker 3")
            for broker in brokers[:2]:
                assert broker.log_text.count(LINE) <= 1
            for broker in brokers[:2]:
                broker.stop()
            assert brokers[0].log_text.count(LINE) == 1
        finally:
            for broker in brokers:
                broker.close()
