"""The replicas of one partition on several brokers, without sockets: the test decides when a follower fetches, and which
broker leads.

replicas = await Replicas(tmp_path).start()
replicas.produce(1, b"a")            to the leader
await replicas.fetch(2)              broker 2 sends one request to its leader, and follows the response
await replicas.elect(2, isr=(2, 3))
await replicas.settle()              until every follower has all
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.metadata.image import PartitionImage
from pybroker.metadata.isr_changes import IsrChange
from pybroker.metadata.member_entries import encode_session, session_key
from pybroker.metadata.members import BrokerSession
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.codec import message_versions
from pybroker.protocol.messages.fetch import FetchRequest
from pybroker.protocol.schema import schema_of
from pybroker.replication.fetcher.fetcher import Followed, ReplicaFetcher
from pybroker.replication.partition import Partition
from pybroker.sharing.work import run_through
from testing.scenes.api import records
from testing.scenes.api.whole import NOW_MS, Whole, settled
from testing.simulation.clock import SettableClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.replication.fetcher.fetcher import Request

TOPIC = TopicPartition("t", 0)
LAG_MS_MAX = 10_000


class Replicas:
    """Brokers 1 to 3, each with a replica of `TOPIC`, on one store. `proposed` are the ISRs that leaders ask for."""

    def __init__(self, directory: Path, **config: Any) -> None:
        store, self.clock = MemoryStore(), SettableClock(NOW_MS)
        config = {"replica_fetch_wait_max_ms": 0, "replica_lag_time_max_ms": LAG_MS_MAX, **config}
        self.brokers = {
            number: Whole(directory / str(number), store=store, clock=self.clock, node_id=number, **config)
            for number in (1, 2, 3)
        }
        for number in self.brokers:
            (directory / str(number)).mkdir()
        self.proposed: list[tuple[IsrChange, Callable[[bool], object]]] = []
        self._fetchers: dict[int, ReplicaFetcher] = {}

    async def start(self, **configs: str) -> Replicas:
        for number, one in self.brokers.items():
            await one.start()
            one.replicas.cluster.alter_isr = lambda change, done: self.proposed.append((change, done))
            assert one.broker_id == number
        topic = NewTopic(
            name=TOPIC.topic,
            assignments=((0, (BrokerId(1), BrokerId(2), BrokerId(3))),),
            configs={"min.insync.replicas": "1", **configs},
        )
        (outcome,) = await self.brokers[1].controller.create_topics([topic])
        assert outcome.topic is not None, outcome.error
        return self

    @property
    def image(self) -> PartitionImage:
        return self.brokers[1].controller.image.topics[TOPIC.topic].partitions[0]

    def partition(self, broker: int) -> Partition:
        return self.brokers[broker].replicas.partition_or_raise(TOPIC)

    def epoch_of(self, broker: int) -> int:
        """Return a broker's epoch."""
        return self.brokers[1].controller.image.brokers[BrokerId(broker)].epoch

    async def elect(self, leader: int, isr: tuple[int, ...]) -> None:
        """Give the partition another leader epoch."""
        await self.decide(
            leader=BrokerId(leader), isr=tuple(map(BrokerId, isr)), leader_epoch=LeaderEpoch(self.image.leader_epoch + 1)
        )

    async def decide(self, **changes: Any) -> None:
        """Change the partition's state, as the store has it."""
        before = self.image
        after = replace(before, partition_epoch=before.partition_epoch + 1, **changes)
        controller = self.brokers[1].controller
        key = partition_key(controller.image.topics[TOPIC.topic].topic_id, TOPIC.partition)
        await controller.commit(puts={key: encode_partition(after)})

    async def grant(self) -> None:
        """Carry out the oldest proposed ISR."""
        change, done = self.proposed.pop(0)
        await self.decide(isr=change.isr)
        done(True)

    def produce(self, broker: int, *values: bytes) -> None:
        """Append a batch for each value."""
        for value in values:
            self.partition(broker).append_records_to_leader(
                memoryview(bytearray(records.batch_of_values(value))), 1, self.clock.time_ms()
            )
        self.brokers[broker].replicas.wake(TOPIC)

    def written(self, broker: int) -> bytes:
        """Return all bytes of the log."""
        return b"".join(segment.file.pread(segment.size, 0) for segment in self.partition(broker).log.segments)

    def offsets(self) -> list[int]:
        """Return where the logs end."""
        return [self.partition(number).log.log_end_offset for number in self.brokers]

    # Following

    def request(self, broker: int) -> Request:
        """Return a follower's next request, which the leader has not got yet."""
        partition, image = self.partition(broker), self.image
        fetcher = self._fetchers.get(broker)
        if fetcher is None or fetcher.leader != image.leader:
            fetcher = self._fetchers[broker] = ReplicaFetcher(
                image.leader,
                broker_id=BrokerId(broker),
                broker_epoch=lambda: self.epoch_of(broker),
                config=self.brokers[broker].config,
            )
        fetcher.add(TOPIC, Followed(partition, partition.topic_id, image.leader_epoch))
        request = fetcher.request(self.clock.monotonic_ms())
        assert request is not None, "the partition waits"
        return request

    async def response(self, request: Request, leader: int | None = None) -> Any:
        """Return what the leader responds."""
        whole = self.brokers[self.image.leader if leader is None else leader]
        version = message_versions(schema_of(type(request.message)).api_key or 0)[1]
        return whole.read(await settled(whole.send(request.message, version)), request.message, version)

    def follow(self, broker: int, request: Request, response: Any) -> None:
        """Follow a response."""
        run_through(self._fetchers[broker].handle(request, response, self.clock.monotonic_ms))

    async def fetch(self, broker: int) -> bool:
        """Fetch once. Returns whether it was a fetch, and not a question about the leader's log."""
        request = self.request(broker)
        self.follow(broker, request, await self.response(request))
        return isinstance(request.message, FetchRequest)

    async def settle(self) -> None:
        """Fetch until every follower has what its leader has, and knows the high watermark, then compare the logs."""
        followers = [number for number in self.brokers if number != self.image.leader]
        for _ in range(10):
            for number in followers:
                await self.fetch(number)
        assert self.written(1) == self.written(2) == self.written(3)
        assert len({self.partition(number).high_watermark for number in self.brokers}) == 1
        entries = [self.partition(number).log.epochs.entries for number in self.brokers]
        assert entries[0] == entries[1] == entries[2]

    # Faults

    def lose(self, broker: int, end: int) -> None:
        """Lose what a broker's machine had not written to its disk when it lost its power."""
        self.partition(broker).log.truncate_to(Offset(end))

    async def start_again(self, broker: int, high_watermark: int = 0) -> None:
        """Give a broker another life, in which it knows the high watermark of its last checkpoint."""
        whole = self.brokers[broker]
        await self.live_again(broker)
        before = self.partition(broker)
        whole.replicas._partitions[TOPIC] = Partition(
            TOPIC, before.log, BrokerId(broker), self.image, Offset(high_watermark), whole.replicas.cluster
        )
        self._fetchers.pop(broker, None)

    async def live_again(self, broker: int) -> None:
        """Give a broker another broker epoch."""
        life = BrokerSession(directory=f"directory-{broker}", host="test", started_ms=1)
        await self.brokers[1].controller.commit(puts={session_key(BrokerId(broker)): encode_session(life)})

    async def die(self, broker: int) -> None:
        """End a broker's session."""
        await self.brokers[1].controller.commit(deletes=[session_key(BrokerId(broker))])
