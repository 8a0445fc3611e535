"""A replica manager on model logs and a manual clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.metadata.image import ImageDelta, PartitionImage, TopicImage, empty_image
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pybroker.purgatory.purgatory import Purgatory
from pybroker.purgatory.timer import OperationTimer
from pybroker.replication.delayed_fetch import DelayedFetch
from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchResults, fetch_params
from pybroker.replication.fetching import fetch
from pybroker.replication.replica_manager import ReplicaManager
from pybroker.sharing.work import run_slice
from testing.scenes.no_wake_up import never
from testing.scenes.replication.appended import append_records
from testing.scenes.replication.model_log import ModelLog, ModelLogManager

if TYPE_CHECKING:
    from pybroker.replication.partition import Partition

BROKER = 1
MIB = 1 << 20


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().rjust(16, b"-"))


class ReplicaScene:
    """A replica manager. `topic` makes topics by a change of the image, as the controller does."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000)
        self.timer = OperationTimer(self.clock, never)
        self.image = empty_image(BrokerId(BROKER))
        self.logs = ModelLogManager()
        self.manager = ReplicaManager(
            broker_id=BrokerId(BROKER),
            config=BrokerConfig(),
            clock=self.clock,
            log_manager=self.logs,  # type: ignore[arg-type]  # a model of it
            image=self.image,
            metrics=BrokerMetrics(),
            fetch_purgatory=Purgatory("Fetch", self.timer),
            timer=self.timer,
        )

    def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        leader: int = BROKER,
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = (BROKER,),
        isr: tuple[int, ...] | None = None,
        configs: dict[str, str] | None = None,
        identity: TopicId | None = None,
    ) -> None:
        """Create the topic, or change it to these values."""
        image = PartitionImage(
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(leader_epoch),
            replicas=tuple(map(BrokerId, replicas)),
            isr=tuple(map(BrokerId, isr or replicas)),
            partition_epoch=0,
        )
        topic = TopicImage(
            name=name, topic_id=identity or topic_id(name), partitions=(image,) * partitions, configs=configs or {}
        )
        new, delta = self.image.changed(revision=self.image.revision + 1, topics=[topic])
        self.apply(new, delta)

    def remove(self, name: str) -> None:
        self.apply(*self.image.changed(revision=self.image.revision + 1, removed_topics=[name]))

    def apply(self, new: Any, delta: ImageDelta) -> None:
        old, self.image = self.image, new
        self.manager.apply_image(old, new, delta)

    def log(self, name: str, partition: int = 0) -> ModelLog:
        return self.logs.logs[TopicPartition(name, partition)]

    def partition(self, name: str, partition: int = 0) -> Partition:
        return self.manager.partition_or_raise(TopicPartition(name, partition))

    def produce(self, name: str, *sizes: int, partition: int = 0, acks: int = 1) -> list[Any]:
        """Append a batch of each size, and return the list that the responses arrive in."""
        responses: list[Any] = []
        for size in sizes:
            entries = {TopicPartition(name, partition): memoryview(bytearray(size))}
            append_records(self.manager, timeout_ms=1000, acks=acks, entries=entries, on_complete=responses.append)
        return responses

    def fetch(self, params: FetchParams, *partitions: FetchPartition) -> list[FetchResults]:
        """Fetch, and return the list that the response arrives in."""
        responses: list[FetchResults] = []
        work = fetch(self.manager, params, partitions)

        def continue_(_: object = None) -> None:
            ended, step, results = run_slice(work, math.inf)
            if ended:
                responses.append(results or [])
            else:
                assert isinstance(step, DelayedFetch), "no log is on a disk"
                step.add_done_callback(continue_)

        continue_()
        return responses

    def pass_time(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
        self.timer.advance()


def params(
    version: int = 12,
    *,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MIB,
    is_read_committed: bool = False,
) -> FetchParams:
    return fetch_params(
        version=version,
        replica_id=BrokerId(replica_id),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        is_read_committed=is_read_committed,
        broker_fetch_max_bytes=55 * MIB,
    )


def wanted(name: str | None, offset: int, max_bytes: int = MIB, partition: int = 0, **more: Any) -> FetchPartition:
    return FetchPartition(
        name, more.pop("topic_id", ZERO_TOPIC_ID), partition, fetch_offset=Offset(offset), max_bytes=max_bytes, **more
    )
