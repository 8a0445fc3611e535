"""One partition from where it stands to an end: the part of the work that is a task of its own, in Spark or in a thread.

What has arrived is told by the target: its log's end, and the last batch there, which must be this mirror's own. That is asked
at the start and again after any trouble; nothing is ever sent again just because no answer came. Brokers' own memory of
producers (KIP-98) is not enough for that: they forget one whose last batch is a day old by the records' timestamps, which
copied records are, whenever they start. But it helps with what a process that was killed still has on its way: the producer id
is the same in all runs of a mirror and the sequence of a batch follows from its offset, so what comes late is what this run
sends too, and the broker takes only one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.mirror.offset_map import Arrived, OffsetMap
from pybroker.pipeline.mirror.outgoing import Counts, Outgoing, Planner, Producer
from pybroker.pipeline.wire.client import COMMITTED, EARLIEST, LATEST, Fetched, WireClient, gave_up, pauses
from pybroker.pipeline.wire.errors import BrokerError
from pybroker.pipeline.wire.writer import PartitionWriter, WriteInterruptedError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import SEQUENCE_MAX, BatchView, batches

FETCH_BYTES: Final = 8 << 20
_FETCH_BYTES_MAX: Final = 1 << 30
_SETTLED_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition to mirror."""

    source: str
    """Addresses of the cluster."""
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

    @property
    def name(self) -> str:
        """In the source."""
        return f"{self.topic}-{self.partition}"

    @property
    def target_name(self) -> str:
        """In the target."""
        return f"{self.target_topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Copied:
    """What was done for one partition."""

    counts: Counts = field(default_factory=Counts)
    lost: int = 0
    """Offsets that were deleted before they could be mirrored."""


def not_ours(target: str, count: int) -> PipelineError:
    """The error for a target that has records before the first was mirrored."""
    return PipelineError(
        f"{target} already has {count} records that this mirror did not write: "
        "mirror to another topic, or continue with the folder that belongs to it"
    )


def mirror_partition(part: Part, end: int, stop: threading.Event | None = None) -> Copied:
    """Copy up to the source offset `end`, a little more maybe, or until `stop`. Raises PipelineError; the next run goes on."""
    stop = stop or threading.Event()

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise PipelineError("stopped")

    with (
        WireClient(part.source, retry_s=part.retry_s, sleep=sleep) as source,
        WireClient(part.target, retry_s=part.retry_s, sleep=sleep) as target,
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

    def run(self, end: int, stop: threading.Event) -> Copied:
        part, first, before = self._part, None, -1
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
        self._counts.records = planner.target - first  # less what was planned again after trouble
        return Copied(self._counts, self._lost)

    def _copy(self, planner: Planner, end: int, stop: threading.Event) -> None:
        part = self._part
        writer = PartitionWriter(self._target, part.target_topic, part.partition)
        while planner.source < end and not stop.is_set():
            before = planner.source
            fetched = self._fetch(planner)
            if fetched is not None:
                self._send(planner, fetched, writer)
            if planner.source > before:
                self._moved()
            elif time.monotonic() > self._deadline:
                raise PipelineError(f"{part.name} returns no records from offset {before}, although it ends at {end}")

    def _moved(self) -> None:
        self._deadline = time.monotonic() + self._part.retry_s

    def _begin(self) -> tuple[int, int]:
        """The source offset that comes next, and where it will be."""
        part, target = self._part, self._target
        at = self._settled_end()
        start = self._source.list_offset(part.topic, part.partition, EARLIEST)
        if self._map.is_new:
            first = target.list_offset(part.target_topic, part.partition, EARLIEST)
            if at > first:
                raise not_ours(part.target_name, at - first)
            self._map.begin(start, at)
            return start, at
        offset = self._map.resume(at)
        self._check_tail(at)
        self._map.mark(Arrived(offset, at, 0 if self._map.arrived is None else self._map.arrived.size))
        return (self._lose(offset, start), at) if start > offset else (offset, at)

    def _settled_end(self) -> int:
        """The end of the target's log, once nothing comes any more of a run that was cut off."""
        part, arrived = self._part, self._map.arrived
        end = self._target.list_offset(part.target_topic, part.partition, LATEST)
        while arrived is not None and end != arrived.target:
            self._sleep(_SETTLED_S)
            before, end = end, self._target.list_offset(part.target_topic, part.partition, LATEST)
            if before == end:
                break
        return end

    def _fetch(self, planner: Planner) -> Fetched | None:
        """What comes next; None when there was nothing yet, or it was deleted."""
        part = self._part
        try:
            fetched = self._source.fetch(
                part.topic, part.partition, planner.source, max_bytes=self._fetch_bytes, isolation=COMMITTED
            )
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            start = self._source.list_offset(part.topic, part.partition, EARLIEST)
            if start <= planner.source:
                ending = self._source.list_offset(part.topic, part.partition, LATEST)
                raise PipelineError(
                    f"{part.name} ends at offset {ending}, but was mirrored to {planner.source}: it is another log"
                ) from error
            planner.source = self._lose(planner.source, start)
            return None
        return fetched if fetched.data else None

    def _send(self, planner: Planner, fetched: Fetched, writer: PartitionWriter) -> None:
        """All that was fetched, until it has arrived."""
        size, source = planner.counts.size, planner.source
        outgoing = self._planned(planner, fetched)
        if planner.source == source:
            if self._fetch_bytes >= _FETCH_BYTES_MAX:
                raise PipelineError(f"{self._part.name} has no whole batch at offset {source}")
            self._fetch_bytes *= 2  # not one whole batch came
            return
        self._fetch_bytes = FETCH_BYTES
        self._map.plan(run for one in outgoing for run in one.runs)
        for one in outgoing:
            writer.write(one.data, one.offset)
        writer.finish()
        self._map.plan([(planner.source, planner.target)])  # what was left out last is not to be asked for again
        arrived = self._map.arrived
        assert arrived is not None
        self._map.mark(Arrived(planner.source, planner.target, arrived.size + planner.counts.size - size))

    def _planned(self, planner: Planner, fetched: Fetched) -> list[Outgoing]:
        try:
            return list(planner.plan(fetched))
        except PipelineError as error:
            raise PipelineError(f"{self._part.name}: {error}") from error

    def _lose(self, offset: int, start: int) -> int:
        part = self._part
        news = f"{start - offset} offsets of {part.name} were deleted before they were mirrored, {offset} to {start - 1}"
        if not part.is_loss_allowed:
            raise PipelineError(f"{news}; --allow-loss continues without them")
        self._lost += start - offset
        return start

    def _check_tail(self, end: int) -> None:
        """The last batch in the target must be the one that this mirror wrote there. Raises PipelineError."""
        part = self._part
        if end == self._map.base or self._target.list_offset(part.target_topic, part.partition, EARLIEST) >= end:
            return  # nothing was written, or nothing of it is left
        there = self._target.fetch(part.target_topic, part.partition, end - 1)
        last = next(batches(there.data), None)
        if last is None or last.next_offset < end:
            return  # compaction took it
        ours = (part.producer.producer_id, part.producer.epoch, last.base_offset & SEQUENCE_MAX)
        if (last.producer_id, last.producer_epoch, last.base_sequence) != ours or last.next_offset > end:
            raise PipelineError(
                f"{part.target_name} has a batch at offset {last.base_offset} "
                "that this mirror did not write: another producer writes to it"
            )
        self._compare(last)

    def _compare(self, last: BatchView) -> None:
        """The batch in the target with the one that it is a copy of, if that is still there and as it was."""
        part = self._part
        offset = self._map.source_of(last.base_offset)
        try:
            fetched = self._source.fetch(part.topic, part.partition, offset, isolation=COMMITTED, wait_ms_max=0)
        except BrokerError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return  # deleted; `_begin` and `_fetch` say whether too much
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
