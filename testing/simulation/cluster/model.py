"""A model of what the clients of a history know: what they sent, what was acknowledged, and what they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """A record: its producer, and its place among the records that the producer sent to the partition."""

    producer: str
    number: int


class Acknowledged(NamedTuple):
    """The broker that acknowledged a record, and the record's offset; -1 if the response had none."""

    broker_id: int
    offset: int


@dataclass
class PartitionModel:
    """One partition. `seen` has what readers got at each offset; producers `without_order` do not send again what has failed."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    acknowledged: dict[bytes, Acknowledged] = field(default_factory=dict)
    seen: dict[int, bytes] = field(default_factory=dict)
    without_order: set[str] = field(default_factory=set)


@dataclass
class Transaction:
    """A record for each partition. `is_to_be_committed`: its producer has asked for that, once or several times;
    `is_acknowledged`: the end has a response.
    """

    values: dict[int, bytes]
    has_offset: bool
    is_to_be_committed: bool = False
    is_acknowledged: bool = False


@dataclass
class Model:
    """The partitions by topic and number, the offsets of the group, and what was wrong already while the history ran.

    `transactions` are in the order of their numbers. `committed_reads` has, by partition, the position of a reader of what is
    committed, and the records that it got.
    """

    partitions: dict[tuple[str, int], PartitionModel] = field(default_factory=dict)
    offsets_sent: int = 0
    offsets_acknowledged: int = -1
    transactions: list[Transaction] = field(default_factory=list)
    committed_reads: dict[int, tuple[int, list[tuple[int, bytes]]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def of(self, topic: str, partition: int) -> PartitionModel:
        """Return the model of a partition."""
        return self.partitions.setdefault((topic, partition), PartitionModel())

    def saw(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        """Note a record that a reader got."""
        seen = self.of(topic, partition).seen
        if seen.setdefault(offset, value) != value:
            self.problems.append(f"I3: {topic}-{partition} had {seen[offset]!r} at offset {offset}, and then {value!r}")
