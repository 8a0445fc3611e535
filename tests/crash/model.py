"""A model of a broker's promises: the records, topics and offsets that must be there after an event.

A partition's log is the sequence of the batches that were written. A promise about the log holds for a moment:

    batches       what was written by then, up to `end`; `in_flight` is under way still, or failed, and may be written
    acked_end     all before this offset was acknowledged: it outlives the process
    durable_end   all before this offset was reported to be on the disk (recovery point, or acknowledged with flush.messages=1):
                  it outlives the machine
    start_min     the log start offset of a checkpoint that was written: the log never begins before it again
    start_max     the latest log start offset that a client asked for: no more than the records before it may be deleted
    visible_end   the high watermark: what is lost below it must be noticed by the epoch

A topic is there, is being made, is being deleted, or is gone; the states in between may become either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pybroker.model import TopicId, TopicPartition

KeyValue = tuple[bytes, bytes | None]


class Batch(NamedTuple):
    """A batch that was sent: keys and values, its idempotent producer (id, epoch, base sequence), and its offset once written."""

    records: tuple[KeyValue, ...]
    data: bytes
    producer: tuple[int, int, int] | None = None
    first_offset: int = -1
    leader_epoch: int = -1

    @property
    def end_offset(self) -> int:
        return self.first_offset + len(self.records)


class LostRange(NamedTuple):
    """Records that consumers could see, and that are gone."""

    first_offset: int
    end_offset: int
    leader_epoch: int


class Promise(NamedTuple):
    """A promise about a partition's log. `lost` is what was lost before."""

    topic_partition: TopicPartition
    batches: list[Batch]
    count: int  # type: ignore[assignment]  # it hides a tuple's method, which is not needed here
    end: int
    in_flight: tuple[Batch, ...]
    acked_end: int
    durable_end: int
    start_min: int
    start_max: int
    visible_end: int
    is_compacted: bool
    leader_epoch: int
    lost: tuple[LostRange, ...]

    @property
    def sent(self) -> list[Batch]:
        """All that may be there, in order, each with its offset."""
        sent, end = self.batches[: self.count], self.end
        for batch in self.in_flight:
            sent.append(batch._replace(first_offset=end))
            end += len(batch.records)
        return sent


@dataclass
class PartitionModel:
    """One partition of one topic id."""

    topic_partition: TopicPartition
    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    in_flight: tuple[Batch, ...] = ()
    acked_end: int = 0
    durable_end: int = 0
    start_min: int = 0
    start_max: int = 0
    visible_end: int = 0
    is_compacted: bool = False
    leader_epoch: int = 0
    lost: tuple[LostRange, ...] = ()

    def promise(self) -> Promise:
        return Promise(
            self.topic_partition,
            self.batches,
            len(self.batches),
            self.end,
            self.in_flight,
            self.acked_end,
            self.durable_end,
            self.start_min,
            self.start_max,
            self.visible_end,
            self.is_compacted,
            self.leader_epoch,
            self.lost,
        )


class TopicState(Enum):
    """`MAKING` and `DELETING` were asked for and may have happened."""

    MAKING = "making"
    THERE = "there"
    DELETING = "deleting"
    GONE = "gone"


@dataclass
class TopicModel:
    """One topic id. `settings` are Kafka's names and texts."""

    name: str
    topic_id: TopicId
    state: TopicState
    settings: dict[str, str]
    partitions: dict[int, PartitionModel] = field(default_factory=dict)


class TopicPromise(NamedTuple):
    """A topic as it is promised at a moment."""

    name: str
    topic_id: TopicId
    state: TopicState
    settings: dict[str, str]
    promises: tuple[Promise, ...]


class Promises(NamedTuple):
    """All promises of a moment. `unnamed` are names of topics that are being made and whose ids no client knows yet.

    `away` are directories that are not there, `offline` the partitions whose logs lie in such.
    """

    topics: tuple[TopicPromise, ...]
    unnamed: tuple[str, ...]
    away: tuple[str, ...] = ()
    offline: frozenset[tuple[TopicId, int]] = frozenset()


@dataclass
class Model:
    """All topics that ever were."""

    topics: dict[TopicId, TopicModel] = field(default_factory=dict)
    unnamed: tuple[str, ...] = ()

    def there(self) -> list[TopicModel]:
        return [topic for topic in self.topics.values() if topic.state is TopicState.THERE]

    def promises(self) -> Promises:
        """Return a copy that later events do not change."""
        return Promises(
            tuple(
                TopicPromise(
                    topic.name,
                    topic.topic_id,
                    topic.state,
                    dict(topic.settings),
                    tuple(one.promise() for one in topic.partitions.values()),
                )
                for topic in self.topics.values()
            ),
            self.unnamed,
        )
