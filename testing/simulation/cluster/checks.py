"""Checks of a cluster, while a history runs and after it: each function returns a line for everything that is wrong.

I1    what was acknowledged with acks=all and min.insync.replicas=2 is there once, at its offset, in the order of its producer
I2    the replicas of a partition are equal, byte for byte, and each knows the leader epochs of its records
I3    what a reader got is what is there
I4    neither the high watermark nor the last stable offset of a replica goes back
I5    at most one broker acknowledges in a leader epoch
I6    a partition's state follows from the one before: a leader was in sync or eligible, and its epoch is new in the cluster
I7    a broker acknowledges nothing of partitions with several replicas after its session has ended
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pybroker.metadata.image import NO_LEADER
from pybroker.model import Offset, TopicPartition
from pybroker.records.batch import batches
from testing.scenes.logs import content

if TYPE_CHECKING:
    from pybroker.log.log import Log
    from pybroker.metadata.image import PartitionImage
    from pybroker.model import TopicId
    from testing.simulation.cluster.cluster import Cluster
    from testing.simulation.cluster.model import Model, PartitionModel


class _Record(NamedTuple):
    offset: int
    value: bytes
    leader_epoch: int


class Watermarks:
    """The high watermarks of all replicas, of which `problems` has those that went back."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._known: dict[tuple[object, TopicPartition], tuple[int, int]] = {}

    def look(self, cluster: Cluster) -> None:
        """Look at every live broker."""
        for node, process in cluster.lives.items():
            if process.has_started:
                for tp, partition in process.broker.replica_manager.partitions.items():
                    key = process, tp
                    now = partition.high_watermark, partition.last_stable_offset
                    before = self._known.get(key, (-1, -1))
                    if now[0] < before[0] or now[1] < before[1]:
                        self.problems.append(f"I4: {tp} on broker {node} had watermarks {before}, and then {now}")
                    self._known[key] = now


def whats_not_full(cluster: Cluster) -> list[str]:
    """Return the partitions that are not in sync on all brokers, or whose replicas are not at the same end."""
    found = []
    if len(cluster.lives) < len(cluster.nodes) or not all(one.has_started for one in cluster.lives.values()):
        return ["a broker does not run"]
    for node, process in cluster.lives.items():
        for topic in process.broker.controller.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition.leader < 0 or len(partition.isr) < len(partition.replicas):
                    found.append(f"{topic.name}-{number} has leader {partition.leader} and ISR {partition.isr} for broker {node}")
                ends = {node: log.log_end_offset for node, log in _logs(cluster, TopicPartition(topic.name, number)).items()}
                if len(ends) < len(partition.replicas) or len({*ends.values()}) > 1:
                    found.append(f"{topic.name}-{number} ends at {ends}")
    return found


def problems(cluster: Cluster, model: Model) -> list[str]:
    """Return what is wrong after the history, when all replicas are in sync."""
    found: list[str] = []
    image = next(iter(cluster.lives.values())).broker.controller.image
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            tp = TopicPartition(topic.name, number)
            logs = _logs(cluster, tp)
            found += [*_unequal(tp, logs), *_wrong_epochs(tp, logs)]
            records = _records(logs[partition.leader])
            if (topic.name, number) in model.partitions:
                found += _wrong(tp, records, model.partitions[topic.name, number])
    found += [
        f"I5: the brokers {sorted(brokers)} acknowledged records of {tp} in leader epoch {epoch}"
        for (tp, epoch), brokers in cluster.acknowledged.items()
        if len(brokers) > 1
    ]
    return found


def wrong_elections(cluster: Cluster) -> Iterator[str]:
    """Yield the changes of partitions that no election and no leader may make."""
    topics = {topic.topic_id: topic for topic in cluster.store.image().topics.values()}
    newest = -1
    states: dict[tuple[TopicId, int], PartitionImage] = {}
    for topic_id, number, after in cluster.store.partition_changes():
        before = states.get((topic_id, number))
        if after is not None:
            states[topic_id, number] = after
            faults = _faults_of(before, after, newest)
            yield from (f"I6: {topics[topic_id].name}-{number} was {before}, and is {after}: {fault}" for fault in faults)
            newest = max(newest, after.leader_epoch)


def _faults_of(before: PartitionImage | None, after: PartitionImage, newest: int) -> Iterator[str]:
    if after.leader != NO_LEADER and after.leader not in after.isr:
        yield "the leader is not in sync"
    if before is None:
        return
    if after.partition_epoch != before.partition_epoch + 1:
        yield "the change was made from another state"
    if after.leader != before.leader:
        if after.leader not in {NO_LEADER, *before.isr, *before.elr}:
            yield "the leader was neither in sync nor eligible"
        if after.leader_epoch <= before.leader_epoch or after.leader_epoch < newest:
            yield "the leader epoch is not new"
    elif after.leader_epoch < before.leader_epoch:
        yield "the leader epoch goes back"


def _logs(cluster: Cluster, tp: TopicPartition) -> dict[int, Log]:
    logs = {node: process.broker.log_manager.get(tp) for node, process in cluster.lives.items()}
    return {node: log for node, log in logs.items() if log is not None}


def logs_of(cluster: Cluster, topic: str) -> dict[int, bytes]:
    """Return what the leaders of a topic's partitions have."""
    image = next(iter(cluster.lives.values())).broker.controller.image
    return {
        number: _read(_logs(cluster, TopicPartition(topic, number))[partition.leader])
        for number, partition in enumerate(image.topics[topic].partitions)
    }


def _read(log: Log) -> bytes:
    data, offset = bytearray(), log.log_start_offset
    while offset < log.log_end_offset:
        read = content(log.read(offset, bytes_max=1 << 20, upper_offset=log.log_end_offset, min_one_batch=True))
        ends = [batch.next_offset for batch in batches(memoryview(read))]
        if not ends:
            break
        data += read
        offset = Offset(ends[-1])
    return bytes(data)


def _unequal(tp: TopicPartition, logs: dict[int, Log]) -> Iterator[str]:
    (first, log), *others = logs.items()
    data = _read(log)
    for node, other in others:
        theirs = _read(other)
        if theirs != data:
            yield f"I2: {tp} is not equal on {first} and {node}: {_shape(data)} and {_shape(theirs)}"


def _wrong_epochs(tp: TopicPartition, logs: dict[int, Log]) -> Iterator[str]:
    for node, log in logs.items():
        for batch in batches(memoryview(_read(log))):
            if (known := log.epoch_for_offset(batch.base_offset)) != batch.partition_leader_epoch:
                yield f"I2: {tp} on {node} has epoch {known} at {batch.base_offset}, its batch has {batch.partition_leader_epoch}"


def _shape(data: bytes) -> list[tuple[int, int, int]]:
    return [(batch.base_offset, batch.next_offset, batch.partition_leader_epoch) for batch in batches(memoryview(data))]


def _records(log: Log) -> list[_Record]:
    data = memoryview(_read(log))
    return [
        _Record(record.offset, record.value or b"", batch.partition_leader_epoch)
        for batch in batches(data)
        if not batch.is_control
        for record in batch.records()
    ]


def _wrong(tp: TopicPartition, records: list[_Record], model: PartitionModel) -> Iterator[str]:
    counts = Counter(record.value for record in records)
    places = {record.value: record for record in records}
    for value, acknowledged in model.acknowledged.items():
        record = places.get(value)
        if record is None:
            yield f"I1: {tp} has lost {value!r}, which broker {acknowledged.broker_id} acknowledged at {acknowledged.offset}"
        elif acknowledged.offset not in {-1, record.offset}:
            yield f"I1: {tp} has {value!r} at {record.offset}, and it was acknowledged at {acknowledged.offset}"
    yield from (f"I1: {tp} has {value!r} {count} times" for value, count in counts.items() if count > 1)
    yield from (f"I1: {tp} has {value!r}, which no producer sent" for value in counts if value not in model.sent)
    of_producers: dict[str, list[int]] = {}
    for record in records:
        if record.value in model.sent:
            producer, number = model.sent[record.value]
            of_producers.setdefault(producer, []).append(number)
    for producer, numbers in of_producers.items():
        if producer not in model.without_order and numbers != list(range(len(numbers))):
            yield f"I1: {tp} has the records of {producer} in the order {numbers}"
    there = {record.offset: record.value for record in records}
    for offset, value in model.seen.items():
        if there.get(offset) != value:
            yield f"I3: a reader got {value!r} at offset {offset} of {tp}, where {there.get(offset)!r} is"
