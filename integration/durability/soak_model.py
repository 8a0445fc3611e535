"""A model of what a broker must have after what it acknowledged: the simplest that can be right."""

from __future__ import annotations

from dataclasses import dataclass, field

from pybroker.records.batch import Record

Pair = tuple[bytes, bytes | None]


class DifferenceError(AssertionError):
    """The broker does not have what it acknowledged."""


@dataclass
class PartitionModel:
    """A partition of one incarnation of its topic.

    Attributes:
        written: all records by offset, including those below the start.
        start: the greatest start that was acknowledged.
        kept_start: a start that a killed broker may return to, because it writes starts at intervals and not at once.
        end: the offset of the next record.
        is_compacted: whether the topic was ever compacted.
        sequence: the next sequence number of its idempotent producer.
    """

    written: dict[int, Pair] = field(default_factory=dict)
    start: int = 0
    kept_start: int = 0
    end: int = 0
    is_compacted: bool = False
    producer: tuple[int, int] | None = None
    sequence: int = 0
    last_batch: tuple[int, int, list[Pair]] | None = None  # sequence, first offset and pairs

    def append(self, first: int, pairs: list[Pair]) -> None:
        """Take over records that were acknowledged at this offset. Raises DifferenceError."""
        if first != self.end:
            raise DifferenceError(f"appended at {first}, and not at the end {self.end}")
        self.written |= dict(enumerate(pairs, first))
        self.end = first + len(pairs)

    def check(self, start: int, end: int, records: list[Record]) -> None:
        """Compare a whole read from `start` to `end` with the model. Raises DifferenceError."""
        if (start, end) != (self.start, self.end):
            raise DifferenceError(f"it goes from {start} to {end}, and not from {self.start} to {self.end}")
        found: dict[int, tuple[bytes | None, bytes | None]] = {record.offset: (record.key, record.value) for record in records}
        wrong = {offset: pair for offset, pair in found.items() if self.written.get(offset) != pair}
        if wrong:
            raise DifferenceError(f"never written: {dict(list(wrong.items())[:3])}")
        if list(found) != sorted(found) or len(found) != len(records):
            raise DifferenceError("not in the order of the offsets")
        missing = [offset for offset in self.written if start <= offset < end and offset not in found]
        if self.is_compacted:
            missing = self._wrongly_missing(missing, found)
        if missing:
            raise DifferenceError(f"{len(missing)} records are missing, from offset {missing[0]} on")

    def _wrongly_missing(self, missing: list[int], found: dict[int, tuple[bytes | None, bytes | None]]) -> list[int]:
        """Leave out what compaction removes.

        That is a record with a later record of its key, and a tombstone once everything that it deletes is gone.
        """
        latest = {key: offset for offset, (key, _) in self.written.items()}
        found_keys = {key for key, _ in found.values()}
        wrong = []
        for offset in missing:
            key, value = self.written[offset]
            if latest[key] != offset:
                continue
            if value is None and key not in found_keys:
                continue
            wrong.append(offset)
        return wrong

    def settle(self, start: int, end: int, maybe: list[list[Pair]]) -> None:
        """Take over the state after a kill: unacknowledged batches may be there, in their order, and the start may be older.

        Raises DifferenceError.
        """
        for pairs in maybe:
            if self.end == end:
                break
            self.append(self.end, pairs)
        if self.end != end:
            raise DifferenceError(f"it ends at {end} after a kill, and not at {self.end}")
        if not self.kept_start <= start <= self.start:
            raise DifferenceError(f"it starts at {start} after a kill, and not between {self.kept_start} and {self.start}")
        self.start = start
        self.producer, self.last_batch = None, None


@dataclass
class TopicModel:
    """An incarnation of a topic; `is_compacted` follows its present settings."""

    partitions: list[PartitionModel]
    is_compacted: bool = False


@dataclass
class ClusterModel:
    """Topics by name, and committed offsets by group, topic and partition."""

    topics: dict[str, TopicModel] = field(default_factory=dict)
    committed: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        """Forget a topic that was deleted, and the offsets that groups committed for it."""
        del self.topics[name]
        self.committed = {key: offset for key, offset in self.committed.items() if key[1] != name}
