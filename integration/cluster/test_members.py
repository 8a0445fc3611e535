"""Three brokers share an etcd: a client sees which of them leads when one is killed, comes back, or is stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.sharing.turns.watchdog import SWITCH
from testing.process import etcd_peer
from testing.process.broker import BrokerProcess
from testing.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka.admin import ClusterMetadata

TIMEOUT_S = 60
SESSION_S = 3.0


def settings(urls: str, broker_id: int) -> dict[str, str]:
    return {
        "metadata.store": f"etcd:{urls}/cluster",
        "node.id": str(broker_id),
        "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
        "broker.heartbeat.interval.ms": "500",
    }


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[int, BrokerProcess]]:
    monkeypatch.delenv(SWITCH, raising=False)  # a turn in which the broker was paused is no fault
    with etcd_peer.running() as etcd:
        brokers = {number: BrokerProcess(tmp_path / str(number), settings(etcd.urls, number)) for number in (1, 2, 3)}
        try:
            for broker in brokers.values():
                broker.start()
            yield brokers
        finally:
            for broker in brokers.values():
                broker.close()


def seen(broker: BrokerProcess) -> ClusterMetadata:
    return AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_S)


def partition(broker: BrokerProcess) -> tuple[int, list[int]]:
    found = seen(broker).topics["t"].partitions[0]
    return found.leader, sorted(found.isrs)


def took_s(holds: Callable[[], bool], what: str) -> float:
    began = time.monotonic()
    until(holds, what)
    return time.monotonic() - began


def test_leaders_move_when_a_broker_dies_and_when_it_stops(three: dict[int, BrokerProcess], tmp_path: Path) -> None:
    assert seen(three[3]).brokers.keys() == {1, 2, 3}
    admin = AdminClient({"bootstrap.servers": three[1].bootstrap})
    admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[[2, 3, 1]])])["t"].result(TIMEOUT_S)
    assert partition(three[1])[0] == 2
    three[2].kill()
    assert took_s(lambda: partition(three[1])[0] == 3, "broker 3 leads") < 3 * SESSION_S
    assert partition(three[3]) == (3, [1, 3])
    assert seen(three[1]).brokers.keys() == {1, 3}
    three[2].start()
    assert seen(three[1]).brokers.keys() == {1, 2, 3}
    assert partition(three[2])[0] == 3
    three[3].stop()
    assert partition(three[1])[0] == 1, "the leader moved before the stop"
    twin = BrokerProcess(tmp_path / "twin", dict(three[1].overrides))
    where = f"with its data in {three[1].data_dir}, which listens at {three[1].bootstrap}"
    with pytest.raises(RuntimeError, match=rf"node\.id=1: is in use by a process on .* {where}\. Stop that process, or"):
        twin.start()
    assert partition(three[1])[0] == 1


def test_a_client_that_knew_the_dead_controller_creates_a_topic(three: dict[int, BrokerProcess]) -> None:
    servers = ",".join(broker.bootstrap for broker in three.values())
    admin = AdminClient({"bootstrap.servers": servers})
    three[admin.list_topics(timeout=TIMEOUT_S).controller_id].kill()
    assert took_s(lambda: not admin.create_topics([NewTopic("t", 1, 1)])["t"].result(TIMEOUT_S), "it is there") < TIMEOUT_S / 2


def test_a_broker_that_was_paused_for_too_long_steps_down_and_joins_again(three: dict[int, BrokerProcess]) -> None:
    admin = AdminClient({"bootstrap.servers": three[1].bootstrap})
    admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[[3, 1]])])["t"].result(TIMEOUT_S)
    os.kill(three[3].pid, signal.SIGSTOP)
    until(lambda: partition(three[1]) == (1, [1]), "broker 1 leads alone")
    os.kill(three[3].pid, signal.SIGCONT)
    until(lambda: seen(three[1]).brokers.keys() == {1, 2, 3}, "broker 3 is back")
    assert partition(three[3])[0] == 1
    assert "Broker 3 lost its session with the metadata store" in three[3].log_text
