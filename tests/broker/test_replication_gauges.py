"""The metrics of replication count what this broker leads and what it copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pybroker.broker.gauges import register_replicas
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import BrokerId, TopicPartition
from testing.scenes.replication.replicas import LAG_MS_MAX, TOPIC, Replicas


class Copied:
    bytes_count = 70

    @property
    def lags(self) -> Iterator[tuple[TopicPartition, BrokerId, int]]:
        yield TOPIC, BrokerId(1), 5
        yield TopicPartition("t", 1), BrokerId(1), 9


def numbers(replicas: Replicas, broker: int, copied: Copied | None = None) -> dict[str, float]:
    whole, metrics = replicas.brokers[broker], BrokerMetrics()
    register_replicas(metrics, whole.replicas, whole.services.fetch_sessions, lambda: copied)
    return {one.name.removesuffix("_total").rpartition("_")[2]: one.read()[()] for one in metrics.readings if not one.labels}


async def test_a_leader_counts_partitions_that_are_short_of_replicas_in_sync(tmp_path: Path) -> None:
    replicas = await Replicas(tmp_path).start(**{"min.insync.replicas": "2"})
    replicas.produce(1, b"a")
    await replicas.settle()
    found = numbers(replicas, 1)
    assert (found["leadercount"], found["underreplicatedpartitions"]) == (1, 0)
    assert (found["underminisrpartitioncount"], found["atminisrpartitioncount"]) == (0, 0)
    replicas.produce(1, b"b")
    replicas.clock.advance(LAG_MS_MAX + 1)
    await replicas.fetch(2)
    await replicas.fetch(2)
    replicas.partition(1).check_isr()
    await replicas.grant()
    found = numbers(replicas, 1)
    assert (found["underreplicatedpartitions"], found["atminisrpartitioncount"], found["isrshrinks"]) == (1, 1, 1)
    await replicas.decide(isr=(1,))
    assert numbers(replicas, 1)["underminisrpartitioncount"] == 1
    assert numbers(replicas, 2)["leadercount"] == 0


async def test_a_follower_shows_what_it_copies(tmp_path: Path) -> None:
    replicas = await Replicas(tmp_path).start()
    assert numbers(replicas, 2)["maxlag"] == 0
    found = numbers(replicas, 2, Copied())
    assert (found["maxlag"], found["replicationbytesin"]) == (9, 70)
