"""The clients of a history: producers, readers, and a group that commits offsets.

Each sends requests to the brokers that Metadata names, and sends again what has no response or an error that a client retries. So
an idempotent producer sends the same sequence again when it cannot know whether a batch was written.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.error_counts import ERROR_NAMES
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from testing.simulation.cluster.model import Acknowledged, Model, Sent

if TYPE_CHECKING:
    from testing.simulation.cluster.cluster import Cluster

RETRIED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REPLICATION_FACTOR,  # while brokers are away
    }
)
PAUSE_S: Final = 0.1
TIMEOUT_MS: Final = 1_000
GROUP: Final = "group"


class Client:
    """A client, which knows the leaders of partitions as of its last Metadata response."""

    def __init__(self, cluster: Cluster, model: Model, name: str) -> None:
        self.cluster, self.model, self.name = cluster, model, name
        self.is_over = False
        self._peers = cluster.peers()
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}  # with their leader epochs
        self._epochs: dict[tuple[str, int], int] = {}  # the newest leader epochs of any response

    async def ask(self, broker_id: int, request: object, version: int) -> Any:
        """Return the response, or None."""
        return await self._peers.ask(broker_id, request, lane=self.name, timeout_ms=TIMEOUT_MS, version=version)

    async def ask_any(self, request: object, version: int) -> Any:
        """Ask some broker until one responds, and return the response."""
        while True:
            response = await self.ask(self.cluster.random.choice(self.cluster.nodes), request, version)
            if response is not None:
                return response
            await asyncio.sleep(PAUSE_S)

    async def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the leader of a partition, once there is one, and the leader epoch. As stock clients do (KIP-320), it ignores an
        older epoch than it has seen: a broker that hears late of an election takes itself for the leader.
        """
        while (topic, partition) not in self._leaders:
            response = await self.ask_any(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
            for found in response.topics:
                for one in found.partitions:
                    key = topic, one.partition_index
                    if one.leader_id >= 0 and not one.error_code and one.leader_epoch >= self._epochs.get(key, -1):
                        self._leaders[key] = one.leader_id, one.leader_epoch
                        self._epochs[key] = one.leader_epoch
            if (topic, partition) not in self._leaders:
                await asyncio.sleep(PAUSE_S)
        return self._leaders[topic, partition]

    def forget_leader(self, topic: str, partition: int) -> None:
        """Ask for the leader again before the next request."""
        self._leaders.pop((topic, partition), None)

    def is_retried(self, what: str, code: int) -> bool:
        """Return whether a request must be sent again; note an error that a client does not retry."""
        if code and code not in RETRIED:
            self.model.problems.append(f"{self.name}: {what} got {ERROR_NAMES[code]}")
            self.is_over = True
        return bool(code)

    async def coordinator(self, kind: int, key: str) -> int | None:
        """Ask some broker for a coordinator; None if there is none now."""
        response = await self.ask_any(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        (one,) = response.coordinators
        if not self.is_retried("the search for the coordinator", one.error_code):
            return int(one.node_id)
        await asyncio.sleep(PAUSE_S)
        return None

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with a replica on each broker; it may have been created already when the response was lost."""
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=len(self.cluster.nodes))
        while not self.is_over:
            response = await self.ask_any(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), 5)
            code = response.topics[0].error_code
            if code == ErrorCode.TOPIC_ALREADY_EXISTS or not self.is_retried("the creation of a topic", code):
                return
            await asyncio.sleep(PAUSE_S)


class Producer(Client):
    """An idempotent producer with acks=all and one batch at a time for a partition."""

    async def produce(self, topic: str, partition: int, count: int, *, pause_s: float = 0.0) -> None:
        """Send `count` batches of some records each, and have each of them acknowledged before the next."""
        known = await self.ask_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        while known.error_code:
            await asyncio.sleep(PAUSE_S)
            known = await self.ask_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        sequence = 0
        for _ in range(count):
            size = self.cluster.random.randint(1, 3)
            values = [b"%s-%d-%d" % (self.name.encode(), partition, sequence + n) for n in range(size)]
            model = self.model.of(topic, partition)
            model.sent |= {value: Sent(self.name, sequence + n) for n, value in enumerate(values)}
            records = [Record(Offset(n), self.cluster.clock.time_ms(), None, value) for n, value in enumerate(values)]
            batch = build_batch(
                records, producer_id=known.producer_id, producer_epoch=known.producer_epoch, base_sequence=sequence
            )
            await self._send(topic, partition, bytes(batch), values)
            if self.is_over:
                return
            sequence += size
            await asyncio.sleep(pause_s)

    async def _send(self, topic: str, partition: int, batch: bytes, values: list[bytes]) -> None:
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[data])
        while not self.is_over:
            broker_id, _ = await self.leader(topic, partition)
            response = await self.ask(broker_id, request, 9)
            if response is not None:
                (one,) = response.responses[0].partition_responses
                if one.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER or not self.is_retried("a batch", one.error_code):
                    base = one.base_offset if not one.error_code else -1
                    self._acknowledge(topic, partition, broker_id, values, base)
                    return
            self.forget_leader(topic, partition)
            await asyncio.sleep(PAUSE_S)

    def _acknowledge(self, topic: str, partition: int, broker_id: int, values: list[bytes], base: int) -> None:
        acknowledged = self.model.of(topic, partition).acknowledged
        for number, value in enumerate(values):
            if not self.is_over:
                acknowledged[value] = Acknowledged(broker_id, base + number if base >= 0 else -1)


class Stubborn(Client):
    """A producer with acks=1 that takes any broker for the leader, and sends nothing again: no record of it has a promise."""

    async def produce(self, topic: str, partitions: int) -> None:
        """Send records until the history is over."""
        random = self.cluster.random
        for number in itertools.count():
            if self.is_over:
                return
            partition, value = random.randrange(partitions), b"%s-%d" % (self.name.encode(), number)
            model = self.model.of(topic, partition)
            model.sent[value] = Sent(self.name, number)
            model.without_order.add(self.name)
            batch = build_batch([Record(Offset(0), self.cluster.clock.time_ms(), None, value)])
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))])
            request = ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[data])
            await self.ask(random.choice(self.cluster.nodes), request, 9)
            await asyncio.sleep(0.2)


class Reader(Client):
    """A consumer of one partition, which notes what it got at each offset."""

    async def read(self, topic: str, partition: int, *, isolation: int, knows_epochs: bool) -> None:
        """Read from the start until the history is over. A client that knows leader epochs is fenced by them (KIP-320)."""
        position, got, aborted = 0, list[tuple[int, bytes]](), set[int]()
        while not self.is_over:
            broker_id, epoch = await self.leader(topic, partition)
            wanted = FetchPartition(
                partition=partition,
                current_leader_epoch=epoch if knows_epochs else -1,
                fetch_offset=position,
                partition_max_bytes=1 << 20,
            )
            fetch = FetchRequest(
                max_wait_ms=800, min_bytes=1, isolation_level=isolation, topics=[FetchTopic(topic=topic, partitions=[wanted])]
            )
            response = await self.ask(broker_id, fetch, 11)
            if response is None or not response.responses:
                self.forget_leader(topic, partition)
                await asyncio.sleep(PAUSE_S)
                continue
            (one,) = response.responses[0].partitions
            if self.is_retried(f"a fetch at {position} of {topic}-{partition} from {broker_id}", one.error_code):
                self.forget_leader(topic, partition)
                await asyncio.sleep(PAUSE_S)
            starts = sorted((of.first_offset, of.producer_id) for of in one.aborted_transactions or ())
            for batch in batches(memoryview(bytes(one.records or b""))):
                while starts and starts[0][0] <= batch.last_offset:
                    aborted.add(starts.pop(0)[1])
                if batch.is_control:
                    aborted.discard(batch.producer_id)
                elif not (batch.is_transactional and batch.producer_id in aborted):
                    records = [one for one in batch.records() if one.offset >= position]
                    got += [(record.offset, record.value or b"") for record in records]
                    for record in records:
                        self.model.saw(topic, partition, record.offset, record.value or b"")
                position = max(position, batch.next_offset)
            if isolation:
                self.model.committed_reads[partition] = position, got


class Committer(Client):
    """A group that commits growing offsets, one after the other, and reads them in between."""

    group = GROUP

    async def commit(self) -> None:
        """Commit until the history is over."""
        coordinator = await self._coordinator()
        while not self.is_over:
            before = self.model.offsets_acknowledged
            if self.cluster.random.random() < 0.5:
                self.model.offsets_sent += 1
                if await self._commit(coordinator, self.model.offsets_sent):
                    self.model.offsets_acknowledged = self.model.offsets_sent
                else:
                    coordinator = await self._coordinator()
            else:
                found = await self.fetched(coordinator)
                if found is None:
                    coordinator = await self._coordinator()
                if found is not None and not before <= found <= self.model.offsets_sent:
                    self.model.problems.append(f"I1: the group has offset {found}, and {before} was acknowledged")
            await asyncio.sleep(PAUSE_S)

    async def final(self) -> int:
        """Return the group's offset."""
        while True:
            found = await self.fetched(await self._coordinator())
            if found is not None:
                return found
            await asyncio.sleep(PAUSE_S)

    async def _coordinator(self) -> int:
        while (found := await self.coordinator(0, self.group)) is None:
            pass
        return found

    async def _commit(self, coordinator: int, offset: int) -> bool:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
        response = await self.ask(coordinator, OffsetCommitRequest(group_id=self.group, topics=topics), 8)
        return response is not None and not self.is_retried("a commit", response.topics[0].partitions[0].error_code)

    async def fetched(self, coordinator: int) -> int | None:
        """Return the offset that the coordinator has, or None if it does not have it."""
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        response = await self.ask(coordinator, OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=True), 7)
        if response is None or self.is_retried("a fetch of offsets", response.error_code):
            return None
        one = response.topics[0].partitions[0]
        return None if self.is_retried("a fetch of offsets", one.error_code) else int(one.committed_offset)
