"""Writes an export to a cluster: topics, records with their timestamps and headers, and the commits of groups.

Records get new offsets. A commit moves to the record that it pointed to: to the first record at or after its offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from pybroker.model import NO_OFFSET, Offset, ProducerId
from pybroker.records.batch import BatchView, batches, entry_size
from pybroker.records.control import ControlType, control_type
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.mirror.outgoing import Planner, Producer
from pybroker.spark.progress import Standing
from pybroker.spark.wire.client import EARLIEST, LATEST, Fetched
from pybroker.spark.wire.writer import PartitionWriter, WriteInterruptedError
from pybroker.terminal import topics
from pybroker.terminal.export_folder import Manifest, files_of
from pybroker.terminal.formats import of_json_with_offset
from pybroker.terminal.lines import rounds
from pybroker.terminal.numbers import counted
from pybroker.terminal.session import FailedError
from pybroker.terminal.writing import Writer, Written
from pybroker.tools.groups_admin import Partition

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.spark.wire.client import WireClient
    from pybroker.terminal.session import Cluster

READ_BYTES: Final = 8 << 20
SIZE: Final = "max.message.bytes"
SIZE_DEFAULT: Final = 1_048_588


class AbortedStretch(NamedTuple):
    """The stretch of an aborted transaction: its first offset, and that of its marker."""

    producer_id: ProducerId
    first: Offset
    last: Offset


Aborted = tuple[AbortedStretch, ...]


class Moves:
    """Where the offsets of a partition have gone, as runs in which both sides grow by one."""

    def __init__(self) -> None:
        self._sources: list[int] = []
        self._targets: list[int] = []
        self._source_end = self._target_end = 0

    def add(self, source: int, *, target: int, count: int) -> None:
        """Note that `count` records from `source` on are at `target` and behind it."""
        if not self._sources or source != self._source_end or target != self._target_end:
            self._sources.append(source)
            self._targets.append(target)
        self._source_end, self._target_end = source + count, target + count

    def moved(self, offset: int, *, end: int) -> int:
        """Return where the first record at or after an offset of the source is; `end` when there is none."""
        if not self._sources or offset >= self._source_end:
            return end
        at = bisect_right(self._sources, offset) - 1
        if at < 0:
            return self._targets[0]
        target = self._targets[at] + offset - self._sources[at]
        return min(target, self._targets[at + 1]) if at + 1 < len(self._targets) else target


class Import:
    """One run of `pybroker import`. `standing` shows how far it has come. Methods raise PipelineError, FailedError, OSError."""

    def __init__(self, cluster: Cluster, client: WireClient, folder: Path, *, prefix: str, is_appending: bool) -> None:
        self._cluster, self._client, self._folder, self._prefix = cluster, client, folder, prefix
        self._is_appending = is_appending
        self._manifest = Manifest.read(folder)
        self._records = self._bytes = 0

    def standing(self) -> Standing:
        """Return the records that are written, of all."""
        return Standing(self._records, self._manifest.records, self._bytes)

    def run(self, *, has_groups: bool) -> tuple[Manifest, int]:
        """Write everything, and return the manifest and the number of records."""
        moves: dict[Partition, tuple[Moves, int]] = {}
        for name, about in self._manifest.topics.items():
            self._prepare(name, about)
        for name, about in self._manifest.topics.items():
            for number in range(about["partitions"]):
                partition = Partition(name, number)
                moves[partition] = self._partition(partition), self._end(partition)
        if has_groups:
            self._commit(moves)
        return self._manifest, self._records

    def _prepare(self, name: str, about: dict[str, object]) -> None:
        """Create a topic, or check the one that there is. Raises FailedError."""
        target, count = self._prefix + name, int(str(about["partitions"]))
        known = self._client.topics([target]).get(target)
        if known is None:
            configs = {str(key): str(value) for key, value in dict(about["configs"]).items()}  # type: ignore[call-overload]
            topics.create(self._cluster, [target], partitions=count, replicas=-1, settings=configs, may_exist=True)
            self._client.topic(target)
            return
        if len(known.leaders) < count:
            raise FailedError(
                f"topic {target} has {counted(len(known.leaders), 'partition')}, the export {count}: pybroker topics alter"
            )
        filled = [number for number in range(count) if self._end(Partition(name, number)) > self._start(Partition(name, number))]
        if filled and not self._is_appending:
            raise FailedError(f"{target}-{filled[0]} has records already: give --append, or --prefix for another topic")

    def _partition(self, partition: Partition) -> Moves:
        moves = Moves()
        for path in files_of(self._folder, partition, self._manifest.form):
            begin, aborted = Offset(int(path.stem)), () if self._manifest.form == "jsonl" else aborted_in(path)
            with path.open("rb") as file:
                if self._manifest.form == "jsonl":
                    self._lines(partition, path, file, moves)
                else:
                    self._batches(partition, file, moves, aborted, begin)
        return moves

    def _lines(self, partition: Partition, path: Path, file: BinaryIO, moves: Moves) -> None:
        writer, offsets, number = Writer(self._client, self._prefix + partition.topic), list[int](), 0
        for lines in (*rounds(file, b"\n"), None):
            for line in lines or ():
                number += 1
                record, offset = of_json_with_offset(line, f"{path}: line {number}")
                offsets.append(offset)
                self._note(writer.add(record._replace(partition=partition.number)), offsets, moves)
                self._bytes += len(line)
            if lines is None:
                self._note(writer.flush(), offsets, moves)

    def _note(self, written: list[Written], offsets: list[int], moves: Moves) -> None:
        for _, first, count in written:
            for position, source in enumerate(offsets[:count]):
                moves.add(source, target=first + position, count=1)
            del offsets[:count]
            self._records += count

    def _batches(self, partition: Partition, file: BinaryIO, moves: Moves, aborted: Aborted, begin: Offset) -> None:
        target = self._prefix + partition.topic
        size = self._client.settings(target)[SIZE].value
        producer = Producer(*self._client.init_producer_id())
        size_max = SIZE_DEFAULT if size is None else int(size)
        planner = Planner(producer, begin, self._end(partition), size_max)  # leaves out what the first batch has before `begin`
        writer = PartitionWriter(self._client, target, partition.number)
        try:
            for data in _whole_batches(file):
                first = BatchView(data).base_offset
                coming = tuple(one for one in aborted if one.last >= first)
                fetched = Fetched(data, NO_OFFSET, NO_OFFSET, NO_OFFSET, tuple((one.producer_id, one.first) for one in coming))
                for batch in planner.plan(fetched):
                    writer.write(batch.data, batch.offset)
                    for position, (source, at) in enumerate(batch.runs):
                        end = batch.runs[position + 1][1] if position + 1 < len(batch.runs) else batch.offset + batch.count
                        moves.add(source, target=at, count=end - at)
                    self._records += batch.count
                    self._bytes += len(batch.data)
            writer.finish()
        except WriteInterruptedError as error:
            raise FailedError(f"{error}; delete the records of {target} and import again") from error

    def _commit(self, moves: dict[Partition, tuple[Moves, int]]) -> None:
        by_group: dict[str, dict[Partition, int]] = {}
        for one in self._manifest.groups:
            partition = Partition(one["topic"], one["partition"])
            if partition in moves:
                found, end = moves[partition]
                target = Partition(self._prefix + partition.topic, partition.number)
                by_group.setdefault(one["group"], {})[target] = found.moved(one["offset"], end=end)
        for group, offsets in by_group.items():
            self._cluster.commit(group, offsets)

    def _end(self, partition: Partition) -> Offset:
        return self._client.list_offset(self._prefix + partition.topic, partition.number, timestamp=LATEST)

    def _start(self, partition: Partition) -> Offset:
        return self._client.list_offset(self._prefix + partition.topic, partition.number, timestamp=EARLIEST)


def aborted_in(path: Path) -> Aborted:
    """Return the aborted transactions of a file, by their markers. Raises FailedError, OSError."""
    begun: dict[ProducerId, Offset] = {}
    found = []
    with path.open("rb") as file:
        for data in _whole_batches(file):
            for batch in batches(data):
                if not batch.is_transactional:
                    continue
                if not batch.is_control:
                    begun.setdefault(batch.producer_id, batch.base_offset)
                    continue
                first = begun.pop(batch.producer_id, None)
                if first is not None and control_type(batch) is ControlType.ABORT:
                    found.append(AbortedStretch(producer_id=batch.producer_id, first=first, last=batch.base_offset))
    return tuple(found)


def _whole_batches(file: BinaryIO) -> Iterator[memoryview]:
    """Yield the batches of a file in pieces that the caller may change. Raises FailedError for a cut batch."""
    rest = b""
    try:
        while read := file.read(READ_BYTES):
            data, end = bytearray(rest + read), 0
            while (size := entry_size(data, end)) is not None:
                end += size
            rest = bytes(data[end:])
            if end:
                yield memoryview(data)[:end]
    except CorruptRecordError as error:
        raise FailedError(f"{file.name} is damaged: {error.message}") from error
    if rest:
        raise FailedError(f"{file.name} is damaged: its last batch is cut")
