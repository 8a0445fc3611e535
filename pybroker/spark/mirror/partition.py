"""Copies a partition from its present state to a given end: the work of one task, in Spark or in a thread.

The target shows what has arrived, by the end of its log and by the last batch there, which must be this mirror's own. A task
looks there at its start, and again after any trouble. It never sends anything again only because no response came. The memory
that brokers have of producers (KIP-98) is not enough for that: when a broker starts, it forgets a producer whose last batch is a
day old by the records' timestamps, and copied records are often that old. But it does help with requests that a killed process
left in flight. All runs of a mirror share a producer id and derive a batch's sequence from its offset, so a late batch is
identical to the one that this run sends, and the broker accepts only one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pybroker.model import NO_OFFSET, Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import BatchView, batches, increment_sequence
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap
from pybroker.spark.mirror.outgoing import Counts, Outgoing, Planner, Producer
from pybroker.spark.wire.client import COMMITTED, EARLIEST, LATEST, Connect, Fetched, WireClient, gave_up, pauses
from pybroker.spark.wire.errors import BrokerError
from pybroker.spark.wire.writer import PartitionWriter, WriteInterruptedError

FETCH_BYTES: Final = 8 << 20
_FETCH_BYTES_MAX: Final = 1 << 30
_SETTLED_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition to mirror, and all that its task needs to know."""

    source: str
    """The addresses of the source cluster."""
    target: str
    topic: str
    topic_id: bytes
    target_topic: str
    target_topic_id: bytes
    partition: int
    map_path: str
    producer: Producer
    size_max: int
    retry_s: float
    is_loss_allowed: bool
    connect_source: Connect | None = None
    connect_target: Connect | None = None

    @property
    def name(self) -> str:
        """The name of the partition in the source."""
        return f"{self.topic}-{self.partition}"

    @property
    def target_name(self) -> str:
        """The name of the partition in the target."""
        return f"{self.target_topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Copied:
    """The records that a task has copied of a partition."""

    counts: Counts = field(default_factory=Counts)
    lost: int = 0
    """Offsets that were deleted before they could be mirrored."""


def not_ours(target: str, count: int) -> PipelineError:
    """Return the error for a target that has records before the mirror wrote its first."""
    return PipelineError(
        f"{target} already has {count} records that this mirror did not write: "
        "mirror to another topic, or continue with the folder that belongs to it"
    )


def mirror_partition(part: Part, end: Offset, stop: threading.Event | None = None) -> Copied:
    """Copy up to the source offset `end`, perhaps a little more, or until `stop` is set.

    Raises PipelineError; the next run continues.
    """
    stop = stop or threading.Event()

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise PipelineError("stopped")

    with (
        WireClient(part.source, retry_s=part.retry_s, sleep=sleep, connect=part.connect_source) as source,
        WireClient(part.target, retry_s=part.retry_s, sleep=sleep, connect=part.connect_target) as target,
        OffsetMap.write(Path(part.map_path)) as offsets,
    ):
        for client, topic, topic_id in ((source, part.topic, part.topic_id), (target, part.target_topic, part.target_topic_id)):
            if client.topic(topic).topic_id != topic_id:
                raise PipelineError(f"topic {topic} at {client.bootstrap} was deleted and created again while the job ran")
        return _Copy(part, source, target, offsets, sleep).run(end, stop)


class _Copy:
    """The state of `mirror_partition`."""

    def __init__(
        self, part: Part, source: WireClient, target: WireClient, offsets: OffsetMap, sleep: Callable[[float], None]
    ) -> None:
        self._part, self._source, self._target, self._map, self._sleep = part, source, target, offsets, sleep
        self._counts, self._lost = Counts(), 0
        self._fetch_bytes = FETCH_BYTES
        self._deadline = 0.0

    def run(self, end: Offset, stop: threading.Event) -> Copied:
        part, first, before = self._part, None, NO_OFFSET
        for pause in pauses():
            offset, at = self._begin()
            first = at if first is None else first
            if at > before:
                self._moved()
            before = at
            planner = Planner(part.producer, offset, at, part.size_max, self._counts)
            try:
                self._copy(planner, end, stop)
            except WriteInterruptedError as error:
                self._target.close()
                if time.monotonic() > self._deadline:
                    raise gave_up(error, part.retry_s) from error
                self._sleep(pause)
            else:
                break
        assert first is not None
        self._counts.records = planner.target - first  # without what was planned again after trouble
        return Copied(self._counts, self._lost)

    def _copy(self, planner: Planner, end: Offset, stop: threading.Event) -> None:
        part = self._part
        writer = PartitionWriter(self._target, part.target_topic, part.partition)
        while planner.source < end and not stop.is_set():
            before = planner.source
            fetched = self._fetch(planner)
            if fetched is None:
                pass
            elif fetched.data:
                self._send(planner, fetched, writer)
            elif fetched.last_stable_offset >= end:
                planner.source = end  # compaction removed all that was there
                self._arrive(planner, size=0)
            if planner.source > before:
                self._moved()
            elif time.monotonic() > self._deadline:
                raise PipelineError(f"{part.name} returns no records from offset {before}, although it ends at {end}")

    def _moved(self) -> None:
        self._deadline = time.monotonic() + self._part.retry_s

    def _begin(self) -> tuple[Offset, Offset]:
        """Return the next source offset, and its offset in the target."""
        part, target = self._part, self._target
        at = self._settled_end()
        start = self._source.list_offset(part.topic, part.partition, timestamp=EARLIEST)
        if self._map.is_new:
            first = target.list_offset(part.target_topic, part.partition, timestamp=EARLIEST)
            if at > first:
                raise not_ours(part.target_name, at - first)
            self._map.begin(start, target=at)
            return start, at
        offset = self._map.resume(at)
        self._check_tail(at)
        self._map.mark(Arrived(offset, at, 0 if self._map.arrived is None else self._map.arrived.size))
        return (self._lose(offset, start=start), at) if start > offset else (offset, at)

    def _settled_end(self) -> Offset:
        """Return the end of the target's log, once nothing more arrives from a run that was cut short."""
        part, arrived = self._part, self._map.arrived
        end = self._target.list_offset(part.target_topic, part.partition, timestamp=LATEST)
        while arrived is not None and end != arrived.target:
            self._sleep(_SETTLED_S)
            before, end = end, self._target.list_offset(part.target_topic, part.partition, timestamp=LATEST)
            if before == end:
                break
        return end

    def _fetch(self, planner: Planner) -> Fetched | None:
        """Fetch what comes next. Return None when it was deleted."""
        part = self._part
        try:
            return self._source.fetch(
                part.topic, part.partition, offset=planner.source, max_bytes=self._fetch_bytes, isolation=COMMITTED
            )
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            start = self._source.list_offset(part.topic, part.partition, timestamp=EARLIEST)
            if start <= planner.source:
                ending = self._source.list_offset(part.topic, part.partition, timestamp=LATEST)
                raise PipelineError(
                    f"{part.name} ends at offset {ending}, but was mirrored to {planner.source}: it is another log"
                ) from error
            planner.source = self._lose(planner.source, start=start)
            return None

    def _send(self, planner: Planner, fetched: Fetched, writer: PartitionWriter) -> None:
        """Send all that was fetched, and wait until it has arrived."""
        size, source = planner.counts.size, planner.source
        outgoing = self._planned(planner, fetched)
        if planner.source == source:
            if self._fetch_bytes >= _FETCH_BYTES_MAX:
                raise PipelineError(f"{self._part.name} has no whole batch at offset {source}")
            self._fetch_bytes *= 2  # the response had no whole batch
            return
        self._fetch_bytes = FETCH_BYTES
        self._map.plan(run for one in outgoing for run in one.runs)
        for one in outgoing:
            writer.write(one.data, one.offset)
        writer.finish()
        self._arrive(planner, size=planner.counts.size - size)

    def _arrive(self, planner: Planner, *, size: int) -> None:
        """Write down that everything has arrived, in `size` more bytes."""
        self._map.plan([(planner.source, planner.target)])  # so that what was left out last is not fetched again
        arrived = self._map.arrived
        assert arrived is not None
        self._map.mark(Arrived(planner.source, planner.target, arrived.size + size))

    def _planned(self, planner: Planner, fetched: Fetched) -> list[Outgoing]:
        try:
            return list(planner.plan(fetched))
        except PipelineError as error:
            raise PipelineError(f"{self._part.name}: {error}") from error

    def _lose(self, offset: Offset, *, start: Offset) -> Offset:
        part = self._part
        message = f"{start - offset} offsets of {part.name} were deleted before they were mirrored, {offset} to {start - 1}"
        if not part.is_loss_allowed:
            raise PipelineError(f"{message}; --allow-loss continues without them")
        self._lost += start - offset
        return start

    def _check_tail(self, end: Offset) -> None:
        """Check that the last batch in the target is the one that this mirror wrote there. Raises PipelineError."""
        part = self._part
        if end == self._map.base or self._target.list_offset(part.target_topic, part.partition, timestamp=EARLIEST) >= end:
            return  # the mirror has written nothing, or none of it is left
        fetched = self._target.fetch(part.target_topic, part.partition, offset=Offset(end - 1))
        last = next(batches(fetched.data), None)
        if last is None or last.next_offset < end:
            return  # compaction removed it
        ours = (part.producer.producer_id, part.producer.epoch, increment_sequence(0, last.base_offset))
        if (last.producer_id, last.producer_epoch, last.base_sequence) != ours or last.next_offset > end:
            raise PipelineError(
                f"{part.target_name} has a batch at offset {last.base_offset} "
                "that this mirror did not write: another producer writes to it"
            )
        self._compare(last)

    def _compare(self, last: BatchView) -> None:
        """Compare the batch in the target with the source's batch of which it is a copy, if that is still there unchanged."""
        part = self._part
        offset = self._map.source_of(last.base_offset)
        try:
            fetched = self._source.fetch(part.topic, part.partition, offset=offset, isolation=COMMITTED, wait_ms_max=0)
        except BrokerError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return  # deleted; `_begin` and `_fetch` report whether records were lost by that
            raise
        planner = Planner(part.producer, offset, last.base_offset, part.size_max)
        first = next(planner.plan(fetched), None)
        if first is None or not first.is_verbatim or first.count != last.record_count or first.runs[0][0] != offset:
            return
        if BatchView(first.data).payload != last.payload:
            raise PipelineError(
                f"{part.target_name} at {last.base_offset} is not a copy of "
                f"{part.name} at {offset}: the offset map belongs to another log"
            )
