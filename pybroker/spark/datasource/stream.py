"""Plans a stream: where it starts, where a micro-batch ends, and the ranges between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pybroker.model import FIRST_OFFSET, Offset, TopicPartition
from pybroker.spark.datasource.plan import SegmentRange, lost, plan_partition, resolve
from pybroker.spark.datasource.snapshot import PartitionSnapshot, places, take

if TYPE_CHECKING:
    from pybroker.spark.datasource.options import Options
    from pybroker.spark.datasource.transactions import TransactionState

StreamOffsets = dict[str, dict[str, int]]


class StreamPlanner:
    """The planner of a query, for as long as the query runs.

    It remembers how far it has read the headers, and the end offsets that `availableNow` has to reach.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._states: dict[TopicPartition, TransactionState] = {}
        self._target: dict[TopicPartition, Offset] | None = None

    def _look(self) -> dict[TopicPartition, PartitionSnapshot]:
        return {place.tp: take(place, self._options, self._states) for place in places(self._options)}

    def initial(self) -> StreamOffsets:
        """Return the offsets that `startingOffsets` names."""
        return written({tp: resolve(self._options.starting, snapshot) for tp, snapshot in self._look().items()})

    def ends(self) -> StreamOffsets:
        """Return the offsets up to which the partitions may be read now."""
        return written({tp: snapshot.end_offset for tp, snapshot in self._look().items()})

    def freeze(self) -> None:
        """Offer nothing newer than the present ends from now on."""
        self._target = {tp: snapshot.end_offset for tp, snapshot in self._look().items()}

    def latest(self, start: Mapping[str, Mapping[str, int]], offsets_max: int | None) -> StreamOffsets:
        """Return where a micro-batch from `start` ends. Raises PipelineError for a topic or offsets that are gone."""
        starts, snapshots = read(start), self._look()
        for tp in starts.keys() - snapshots.keys():
            lost(tp, start=starts[tp], end=starts[tp] + 1, reason="the topic was deleted", options=self._options)
        ends: dict[TopicPartition, Offset] = {}
        for tp, snapshot in snapshots.items():
            if self._target is not None and tp not in self._target:
                continue  # created after the query began
            end = snapshot.end_offset if self._target is None else min(self._target[tp], snapshot.end_offset)
            begin = starts.get(tp, snapshot.start_offset)
            if begin > snapshot.log_end_offset:
                lost(
                    tp,
                    start=snapshot.log_end_offset,
                    end=begin,
                    reason="the log ends earlier; was the topic deleted and created again?",
                    options=self._options,
                )
            else:
                end = max(begin, end)  # the checkpoint of the high watermark may be older than what was read
            ends[tp] = end
        return written(ends if offsets_max is None else self._limited(starts, ends, snapshots, offsets_max))

    @staticmethod
    def _limited(
        starts: Mapping[TopicPartition, Offset],
        ends: Mapping[TopicPartition, Offset],
        snapshots: Mapping[TopicPartition, PartitionSnapshot],
        offsets_max: int,
    ) -> dict[TopicPartition, Offset]:
        """Divide the limit among the partitions by how many offsets each has; while any are left, one that has some gets some."""
        begins = {tp: max(starts.get(tp, FIRST_OFFSET), snapshots[tp].start_offset) for tp in ends}
        total = sum(max(ends[tp] - begins[tp], 0) for tp in ends)
        if total <= offsets_max:
            return dict(ends)
        limited: dict[TopicPartition, Offset] = {}
        left = offsets_max
        for tp, end in ends.items():
            size = max(end - begins[tp], 0)
            share = min(size, left, -(-size * offsets_max // total))
            left -= share
            limited[tp] = begins[tp] + share if size else end
        return limited

    def plan(self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> Iterator[SegmentRange]:
        """Yield the ranges from `start` to `end`. Raises PipelineError for offsets that are gone."""
        starts, ends = read(start), read(end)
        if starts == ends:
            return
        snapshots = self._look()
        for tp, until in ends.items():
            snapshot = snapshots.get(tp)
            if snapshot is None:
                lost(tp, start=starts.get(tp, FIRST_OFFSET), end=until, reason="the topic was deleted", options=self._options)
                continue
            yield from plan_partition(snapshot, start=starts.get(tp, snapshot.start_offset), end=until, options=self._options)


def written(offsets: Mapping[TopicPartition, Offset]) -> StreamOffsets:
    """Return offsets in the form in which Spark keeps them in a checkpoint."""
    found: StreamOffsets = {}
    for tp, offset in sorted(offsets.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found


def read(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, Offset]:
    """Return offsets by partition from the form that `written` returns."""
    return {
        TopicPartition(topic, int(partition)): Offset(offset)
        for topic, one in offsets.items()
        for partition, offset in one.items()
    }
