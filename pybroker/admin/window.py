"""A window on the records of a topic: some of them from given offsets on, in the order of their timestamps."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.admin.fetched import fetched
from pybroker.admin.topics import EARLIEST, LATEST, leaders_of, offsets_of
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps
    from pybroker.protocol.messages.metadata import MetadataResponseTopic
    from pybroker.records.batch import BatchView, Record

FETCH_BYTES: Final = 1 << 20
"""The size of one response of a leader."""


class Seen(NamedTuple):
    """A record of a partition, and its batch."""

    partition: int
    record: Record
    batch: BatchView


class Window(NamedTuple):
    """Some records by their timestamps, and for each partition the offset from which the next window reads on.

    `starts` and `ends` have the first offset of each partition, and the one behind the last record that consumers can read.
    """

    records: list[Seen]
    positions: dict[int, int]
    starts: dict[int, int]
    ends: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """Where a window begins: at given offsets by partition, at a time, `last` offsets before the ends, or at the starts."""

    positions: Mapping[int, int] | None = None
    timestamp_ms: int | None = None
    last: int | None = None


def window(
    topic: str, begin: From, *, partition: int | None = None, limit: int, wait_ms: int = 0, committed: bool = False
) -> Steps[Window]:
    """Return at most `limit` records. Where there is none, wait for one, at most `wait_ms`, if one broker leads all partitions.

    Raises KafkaError for an unknown topic or partition.
    """
    listed = yield from leaders_of(topic)
    leaders = _leaders(listed, begin.positions if partition is None else [partition])
    starts = _of(leaders, (yield from offsets_of([listed], EARLIEST)))
    ends = _of(leaders, (yield from offsets_of([listed], LATEST, isolation=int(committed))))
    positions = yield from _positions(listed, begin, starts, ends)
    is_at_end = all(positions[one] >= ends[one] for one in leaders)
    by_leader: dict[int, list[int]] = {}
    for one, leader in leaders.items():
        by_leader.setdefault(leader, []).append(one)
    records: dict[int, list[Seen]] = {}
    reached = dict(positions)
    for leader, some in by_leader.items():
        wait = wait_ms if is_at_end and len(by_leader) == 1 else 0
        found = yield from fetched(topic, leader, some, positions, bytes_max=FETCH_BYTES, wait_ms=wait, committed=committed)
        for one, batch, has_records in found:
            reached[one] = batch.next_offset
            if has_records:
                seen = (Seen(one, record, batch) for record in batch.records() if record.offset >= positions[one])
                records.setdefault(one, []).extend(seen)
    taken = list(islice(heapq.merge(*records.values(), key=lambda one: one.record.timestamp), limit))
    return Window(taken, reached | _left(records, taken), starts, ends)


def batches(topic: str, partition: int, *, offset: int, limit: int) -> Steps[list[BatchView]]:
    """Return at most `limit` batches as they lie in the log, from the one with `offset` on. Raises KafkaError."""
    leaders = _leaders((yield from leaders_of(topic)), [partition])
    found = yield from fetched(topic, leaders[partition], [partition], {partition: offset}, bytes_max=FETCH_BYTES)
    return [batch for _, batch, _ in found][:limit]


def _leaders(found: MetadataResponseTopic, wanted: Iterable[int] | None) -> dict[int, int]:
    """Return the leaders of the partitions that are wanted, of all if that is None. Raises KafkaError."""
    leaders = {one.partition_index: one.leader_id for one in found.partitions}
    if wanted is None:
        return leaders
    if unknown := sorted(set(wanted) - leaders.keys()):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {found.name} has no partition {unknown[0]}")
    return {one: leaders[one] for one in wanted}


def _of(partitions: Iterable[int], offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    by_index = {index: offset for (_, index), offset in offsets.items()}
    return {one: by_index.get(one, 0) for one in partitions}


def _positions(
    listed: MetadataResponseTopic, begin: From, starts: Mapping[int, int], ends: Mapping[int, int]
) -> Steps[dict[int, int]]:
    if begin.positions is not None:
        return {one: min(max(begin.positions.get(one, start), start), max(start, ends[one])) for one, start in starts.items()}
    if begin.last is not None:
        return {one: max(start, ends[one] - begin.last) for one, start in starts.items()}
    if begin.timestamp_ms is None:
        return dict(starts)
    at = _of(starts, (yield from offsets_of([listed], begin.timestamp_ms)))
    return {one: ends[one] if offset < 0 else offset for one, offset in at.items()}


def _left(records: Mapping[int, list[Seen]], taken: Iterable[Seen]) -> dict[int, int]:
    """Return the offset of the first record that was not taken, for each partition that has one."""
    counts = dict.fromkeys(records, 0)
    for one in taken:
        counts[one.partition] += 1
    return {one: records[one][count].record.offset for one, count in counts.items() if count < len(records[one])}
