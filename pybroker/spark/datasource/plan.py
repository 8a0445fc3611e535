"""Makes the ranges that tasks read from a snapshot: in which segments, from which byte, up to which offset."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pybroker.spark.datasource.files import Segment, SegmentLookup
from pybroker.spark.datasource.filters import TIMESTAMP_MAX, TIMESTAMP_MIN, Constraints
from pybroker.spark.datasource.options import EARLIEST, LATEST, Bound, Options
from pybroker.spark.datasource.snapshot import PartitionSnapshot, places, take
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pybroker.model import Offset, TopicPartition
    from pybroker.spark.datasource.transactions import AbortedRange

logger = logging.getLogger(__name__)

EVERYTHING: Final = Constraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """The part that a task reads: the records of [start_offset, end_offset) in one segment, whose batches begin at `position`."""

    tp: TopicPartition
    segment: Segment
    position: int
    start_offset: Offset
    end_offset: Offset
    aborted: tuple[AbortedRange, ...] = ()
    min_timestamp: int = TIMESTAMP_MIN
    max_timestamp: int = TIMESTAMP_MAX


def plan_batch(options: Options, constraints: Constraints = EVERYTHING) -> list[SegmentRange]:
    """Return all ranges of a batch read. Raises PipelineError."""
    ranges: list[SegmentRange] = []
    for place in places(options):
        if not constraints.takes(*place.tp):
            continue
        snapshot = take(place, options)
        start, end = resolve(options.starting, snapshot), resolve(options.ending, snapshot)
        if max(start, end) > snapshot.end_offset and options.is_data_loss_failure:
            raise PipelineError(f"{place.tp} ends at offset {snapshot.end_offset}, before the requested offset {max(start, end)}")
        ranges += plan_partition(snapshot, start=start, end=end, options=options, constraints=constraints)
    return ranges


def _with_times(options: Options, constraints: Constraints) -> Constraints:
    """Return the constraints, narrowed by the times in the options."""
    if options.first_timestamp is not None:
        constraints = replace(constraints, min_timestamp=max(constraints.min_timestamp, options.first_timestamp))
    if options.end_timestamp is not None:
        constraints = replace(constraints, max_timestamp=min(constraints.max_timestamp, options.end_timestamp - 1))
    return constraints


def resolve(bound: Bound, snapshot: PartitionSnapshot) -> Offset:
    """Return the offset of a bound in this partition."""
    offset = bound.of(snapshot.tp)
    return {EARLIEST: snapshot.start_offset, LATEST: snapshot.end_offset}.get(offset, offset)


def plan_partition(
    snapshot: PartitionSnapshot, *, start: Offset, end: Offset, options: Options, constraints: Constraints = EVERYTHING
) -> Iterator[SegmentRange]:
    """Yield the ranges of [start, end) of a partition. Raises PipelineError if the log begins later and that is a failure."""
    constraints = _with_times(options, constraints)
    if start < min(end, snapshot.start_offset):
        lost(
            snapshot.tp,
            start=start,
            end=min(end, snapshot.start_offset),
            reason="the log begins later, by retention or DeleteRecords",
            options=options,
        )
    start = max(start, snapshot.start_offset, constraints.first_offset)
    end = min(end, snapshot.end_offset, constraints.end_offset)
    for segment, segment_start, segment_end in snapshot.bounds():
        first, last = max(start, segment_start), min(end, segment_end)
        if first < last:
            is_sealed = segment is not snapshot.segments[-1]
            for one in _split(
                snapshot.tp,
                segment,
                first=first,
                last=last,
                split_bytes=options.split_bytes,
                constraints=constraints,
                is_sealed=is_sealed,
            ):
                yield _with_aborted(one, snapshot.aborted, constraints)


def lost(tp: TopicPartition, *, start: Offset, end: Offset, reason: str, options: Options) -> None:
    """Report requested offsets that are gone. Raises PipelineError unless the options allow the loss."""
    text = f"{end - start} offsets of {tp}, from {start} to {end - 1}, are gone: {reason}"
    if options.is_data_loss_failure:
        raise PipelineError(f"{text}; failOnDataLoss=false continues without them")
    logger.warning("%s", text)


def _split(
    tp: TopicPartition,
    segment: Segment,
    *,
    first: Offset,
    last: Offset,
    split_bytes: int,
    constraints: Constraints,
    is_sealed: bool,
) -> Iterator[SegmentRange]:
    """Yield ranges of about `split_bytes` that begin at batches in the offset index, without ranges that are wholly too old."""
    file = segment.open()
    if file is None:  # deleted since it was listed: the task that reads it finds out what that means
        yield SegmentRange(tp=tp, segment=segment, position=0, start_offset=first, end_offset=last)
        return
    lookup = SegmentLookup(segment, file)
    if constraints.min_timestamp > TIMESTAMP_MIN:
        first = max(first, lookup.older_until(constraints.min_timestamp, is_sealed=is_sealed) + 1)
        if first >= last:
            return
    position = lookup.position_before(first)
    goal = position + split_bytes
    while goal < segment.size:
        found = lookup.batch_near(goal)
        if found is not None and found[1] > position and found[0] > first:
            if found[0] >= last:
                break
            yield SegmentRange(tp=tp, segment=segment, position=position, start_offset=first, end_offset=found[0])
            first, position = found
        goal += split_bytes
    yield SegmentRange(tp=tp, segment=segment, position=position, start_offset=first, end_offset=last)


def _with_aborted(one: SegmentRange, aborted: frozenset[AbortedRange], constraints: Constraints) -> SegmentRange:
    touching = sorted(entry for entry in aborted if entry[2] >= one.start_offset and entry[1] < one.end_offset)
    return SegmentRange(
        tp=one.tp,
        segment=one.segment,
        position=one.position,
        start_offset=one.start_offset,
        end_offset=one.end_offset,
        aborted=tuple(touching),
        min_timestamp=constraints.min_timestamp,
        max_timestamp=constraints.max_timestamp,
    )
