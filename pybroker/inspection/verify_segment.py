"""Checks one segment: its batches, the order of their offsets and epochs, and its indexes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pybroker.inspection.batches import Batch, Gap, walk
from pybroker.inspection.contents import read_contents
from pybroker.inspection.data_file import DataFile
from pybroker.inspection.places import Place
from pybroker.inspection.verify_index import OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck
from pybroker.model import FIRST_OFFSET, NO_LEADER_EPOCH, LeaderEpoch, Offset
from pybroker.records.batch import MAGIC, TimestampType
from pybroker.records.errors import CorruptRecordError, UnsupportedCompressionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pybroker.inspection.contents import Contents
    from pybroker.inspection.findings import Findings
    from pybroker.inspection.verify_aborts import AbortCourse
    from pybroker.inspection.verify_producers import ProducerCourse
    from pybroker.log.leader_epoch_cache import EpochEntry


@dataclass(slots=True, kw_only=True)
class Course:
    """The state of a partition that its batches show, from segment to segment.

    Attributes:
        epochs: the leader epochs of the checkpoint; None if there is none to compare with.
        may_have_gaps: whether offsets may be missing, because the topic is or was compacted.
        next_offset: the offset that must come next; None if that is not known.
        is_compacted: whether a sound batch has fewer records than offsets, so that compaction was there.
        producers: what the snapshots of producers are compared with; None if they are not compared.
        aborts: what the transaction indexes are compared with; None if they are not compared.
    """

    epochs: Sequence[EpochEntry] | None = None
    may_have_gaps: bool = False
    next_offset: Offset | None = None
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    is_compacted: bool = False
    producers: ProducerCourse | None = None
    aborts: AbortCourse | None = None

    def stop(self) -> None:
        """Expect nothing of the next batch, because some before it are missing or damaged."""
        self.next_offset = None
        if self.producers is not None:
            self.producers.stop()
        if self.aborts is not None:
            self.aborts.stop()


@dataclass(slots=True)
class _Checks:
    """The indexes that are compared with the batches."""

    offsets: OffsetIndexCheck | None = None
    times: TimeIndexCheck | None = None
    transactions: TransactionIndexCheck | None = None
    is_after_gap: bool = field(default=False)

    def feed(self, batch: Batch, base_offset: Offset) -> None:
        if self.is_after_gap:
            self._skip_to(base_offset)
            self.is_after_gap = False
        if self.offsets is not None:
            self.offsets.feed(batch, base_offset)
        if self.times is not None:
            self.times.feed(batch, base_offset)
        if self.transactions is not None:
            self.transactions.feed(batch)

    def skip(self, gap: Gap) -> None:
        self.is_after_gap = True
        if self.offsets is not None:
            self.offsets.skip(gap)

    def finish(self, file: DataFile, next_offset: Offset) -> None:
        if self.is_after_gap:
            self._skip_to(None)
        for one in (self.offsets, self.times, self.transactions):
            if one is not None:
                one.finish(file, next_offset)

    def _skip_to(self, next_offset: Offset | None) -> None:
        for one in (self.times, self.transactions):
            if one is not None:
                one.skip(next_offset)


def verify_segment(
    findings: Findings, path: Path, course: Course, *, base_offset: Offset | None, indexes: Sequence[tuple[Place, Path]] = ()
) -> None:
    """Check the data file at `path` and its indexes. Raises OSError.

    `base_offset` is that of the file's name; None if its name has none, as that of a snapshot of metadata.
    """
    findings.counts["segments"] += 1
    with contextlib.ExitStack() as stack:
        checks = _Checks()
        for place, index in indexes:  # before the data, which is written before them
            try:
                file = stack.enter_context(DataFile(index))
            except FileNotFoundError:
                raise
            except OSError as error:
                findings.add(index, "unreadable", error.strerror or str(error))
                continue
            if place is Place.OFFSET_INDEX:
                checks.offsets = OffsetIndexCheck(findings, file, base_offset or FIRST_OFFSET)
            elif place is Place.TIME_INDEX:
                checks.times = TimeIndexCheck(findings, file, base_offset or FIRST_OFFSET)
            elif place is Place.TRANSACTION_INDEX:
                checks.transactions = TransactionIndexCheck(findings, file, base_offset or FIRST_OFFSET)
        data = stack.enter_context(DataFile(path))
        if base_offset is not None:
            _begin(findings, path, course, base_offset)
        for found in walk(data, base_offset=course.next_offset or FIRST_OFFSET):
            if isinstance(found, Gap):
                findings.add(path, found.kind, found.text, position=found.position, offset=course.next_offset)
                checks.skip(found)
                course.stop()
            else:
                base = _verify_batch(findings, data, found, course)
                checks.feed(found, Offset(base))
        findings.counts["bytes"] += data.size
        if course.aborts is not None:
            course.aborts.compare(path)
        checks.finish(data, (base_offset or FIRST_OFFSET) if course.next_offset is None else course.next_offset)


def _begin(findings: Findings, path: Path, course: Course, base_offset: Offset) -> None:
    expected = course.next_offset
    if expected is not None and base_offset < expected:
        findings.add(path, "name", f"the segment begins at offset {base_offset}, but the one before it ends at {expected}")
    elif expected is not None and base_offset > expected and not course.may_have_gaps:
        findings.add(path, "gap", f"the segment begins at offset {base_offset}, but the one before it ends at {expected}")
    course.next_offset = base_offset


def _verify_batch(findings: Findings, file: DataFile, batch: Batch, course: Course) -> int:
    """Check one batch, and return the offset where it begins."""
    findings.counts["batches"] += 1
    base = batch.base_offset
    if not batch.is_valid:
        text = f"the checksum of the batch is {batch.crc}, which is not that of its contents"
        findings.add(file.path, "crc", text, position=batch.position, offset=batch.base_offset)
        course.stop()  # its header may be what is wrong
        return base
    if course.producers is not None:
        course.producers.feed(batch)
    if course.aborts is not None:
        course.aborts.feed(file, batch)
    contents = _contents(findings, file, batch)
    if contents is not None:
        base = contents.base_offset
        findings.counts["records"] += contents.record_count
        if contents.record_count < batch.last_offset - base + 1:
            course.is_compacted = True
    expected = course.next_offset
    if expected is not None:
        _verify_order(findings, file, batch, base=base, expected=expected, course=course)
    _verify_epoch(findings, file, batch, course)
    course.next_offset = batch.last_offset + 1
    return base


def _contents(findings: Findings, file: DataFile, batch: Batch) -> Contents | None:
    try:
        contents = read_contents(file, batch)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        findings.add(file.path, "records", str(error), position=batch.position, offset=batch.base_offset)
        return None
    if contents is None:
        findings.counts["batches without their records"] += 1
        return None
    is_comparable = batch.magic == MAGIC and batch.view.timestamp_type is TimestampType.CREATE_TIME
    if is_comparable and contents.max_timestamp != batch.max_timestamp:
        text = f"the header says that the largest timestamp is {batch.max_timestamp}, but it is {contents.max_timestamp}"
        findings.add(file.path, "timestamp", text, position=batch.position, offset=batch.base_offset)
    return contents


def _verify_order(findings: Findings, file: DataFile, batch: Batch, *, base: Offset, expected: Offset, course: Course) -> None:
    kind = None
    if base < expected or batch.last_offset < base:
        kind = "order"
    elif base > expected and not course.may_have_gaps:
        kind = "gap"
    if kind is not None:
        text = f"the batch has the offsets {base} to {batch.last_offset}, where {expected} must come"
        findings.add(file.path, kind, text, position=batch.position, offset=base)


def _verify_epoch(findings: Findings, file: DataFile, batch: Batch, course: Course) -> None:
    if batch.magic < MAGIC:
        return
    epoch = int(batch.leader_epoch)
    known = None
    if course.epochs is not None:
        known = next((int(one.epoch) for one in reversed(course.epochs) if one.start_offset <= batch.base_offset), None)
    if known is not None and epoch != known:
        text = f"the batch has the leader epoch {epoch}, but by the checkpoint that of its offset is {known}"
    elif epoch < course.leader_epoch:
        text = f"the batch has the leader epoch {epoch}, after {course.leader_epoch}"
    else:
        course.leader_epoch = LeaderEpoch(epoch)
        return
    findings.add(file.path, "epoch", text, position=batch.position, offset=batch.base_offset)
