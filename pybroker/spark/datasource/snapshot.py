"""Lists what the data directories hold at one moment: topics, partitions, segments, and the offsets that may be read.

The order of reading makes this consistent while the broker runs: first the high watermarks, then the files. Records below the
watermarks were written before, so they are in the files. The reader notices a file that was deleted after the listing by its
inode.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import StoredOffset, read_stored
from pybroker.log.files.names import offset_of
from pybroker.log.producers import producer_snapshot
from pybroker.log.segments.segment_files import DATA_SUFFIX, SWAP_SUFFIX
from pybroker.model import FIRST_OFFSET, ZERO_TOPIC_ID, Offset, TopicPartition
from pybroker.records.batch import MAGIC, BatchView
from pybroker.spark.datasource.files import FILESYSTEM, CorruptSegmentError, Segment, SegmentLookup, walk
from pybroker.spark.datasource.transactions import AbortedRange, TransactionState, indexed_aborts
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

if TYPE_CHECKING:
    from pybroker.spark.datasource.options import Options

PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
ATTEMPTS: Final = 40
PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a partition, and what the checkpoints of its log directory have for it."""

    tp: TopicPartition
    directory: str
    log_start_offset: Offset
    high_watermark: Offset | None


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """A partition: the records of [start_offset, end_offset) may be read; the log continues to `log_end_offset`."""

    tp: TopicPartition
    segments: tuple[Segment, ...]
    start_offset: Offset
    end_offset: Offset
    log_end_offset: Offset
    aborted: frozenset[AbortedRange] = field(default_factory=frozenset)

    def bounds(self) -> Iterator[tuple[Segment, Offset, Offset]]:
        """Yield each segment with its first offset and the offset after its last."""
        for index, segment in enumerate(self.segments):
            is_last = index + 1 == len(self.segments)
            yield segment, segment.base_offset, self.log_end_offset if is_last else self.segments[index + 1].base_offset


def places(options: Options) -> list[Place]:
    """Return the partitions that the options choose, in order. Raises PipelineError."""
    found: dict[TopicPartition, Place] = {}
    seen_topics: set[str] = set()
    for directory in options.directories:
        for place in _places_in(directory, options, seen_topics):
            if place.tp in found:
                raise PipelineError(f"{place.tp} lies in {found[place.tp].directory} and in {place.directory}")
            found[place.tp] = place
    missing = sorted((options.topics or set()) - seen_topics)
    if missing:
        raise PipelineError(f"no topic {', '.join(missing)} in {', '.join(options.directories)}: {_known(seen_topics)}")
    if options.topic_pattern is not None and not found:
        text = options.topic_pattern.pattern
        raise PipelineError(f"no topic matches {text} in {', '.join(options.directories)}: {_known(seen_topics)}")
    return [found[tp] for tp in sorted(found)]


def _known(topics: set[str]) -> str:
    return f"the topics are {', '.join(sorted(topics)[:20])}" if topics else "it has no topics"


def _places_in(directory: str, options: Options, seen_topics: set[str]) -> Iterator[Place]:
    if not FILESYSTEM.exists(directory):
        raise PipelineError(f"there is no data directory {directory}")
    try:
        watermarks = _checkpoint(directory, checkpoint.REPLICATION_OFFSET_FILE)
        starts = _checkpoint(directory, checkpoint.LOG_START_OFFSET_FILE) or {}
        entries = [entry for entry in FILESYSTEM.list(directory) if entry.is_dir()]
    except OSError as error:
        raise PipelineError(f"the data directory {directory} cannot be read: {error}") from error
    for entry in entries:
        match = PARTITION_DIRECTORY.fullmatch(entry.name)
        if match is None:
            continue
        tp = TopicPartition(match[1], int(match[2]))
        seen_topics.add(tp.topic)
        if not options.takes(tp):
            continue
        if watermarks is None and not options.is_until_log_end:
            raise PipelineError(
                f"{directory} has no {checkpoint.REPLICATION_OFFSET_FILE} (a broker writes it every few seconds), so what is "
                "committed is not known; the option until=logEnd reads to the last whole batch"
            )
        path = f"{directory}/{entry.name}"
        known = None if options.is_until_log_end or watermarks is None else _offset_in(watermarks, tp, path)
        yield Place(tp, path, _offset_in(starts, tp, path), known)
    if not seen_topics and not FILESYSTEM.exists(f"{directory}/{checkpoint.META_PROPERTIES_FILE}"):
        raise PipelineError(
            f"{directory} is not the data directory of a broker: it has neither topics nor {checkpoint.META_PROPERTIES_FILE}"
        )


def _offset_in(stored: Mapping[TopicPartition, StoredOffset], tp: TopicPartition, path: str) -> Offset:
    """Return the offset that a checkpoint has for the log in `path`.

    It is 0 if the checkpoint does not have the partition, or has it only for an older topic of the same name.
    """
    one = stored.get(tp)
    if one is None:
        return FIRST_OFFSET
    try:
        topic_id = checkpoint.read_partition_metadata(FILESYSTEM, path)
    except (OSError, checkpoint.CorruptCheckpointError):
        topic_id = None
    return FIRST_OFFSET if topic_id is not None and one.topic_id not in (topic_id, ZERO_TOPIC_ID) else one.offset


def _checkpoint(directory: str, name: str) -> dict[TopicPartition, StoredOffset] | None:
    path = f"{directory}/{name}"
    try:
        return read_stored(FILESYSTEM, path) if FILESYSTEM.exists(path) else None
    except checkpoint.CorruptCheckpointError as error:
        raise PipelineError(f"damaged checkpoint: {error}") from error


def take(place: Place, options: Options, states: dict[TopicPartition, TransactionState] | None = None) -> PartitionSnapshot:
    """Take the snapshot of a partition. For a stream, `states` keeps how far the headers were read. Raises PipelineError."""
    segments, snapshots = _list(place)
    if not segments:
        start = place.log_start_offset
        return PartitionSnapshot(place.tp, (), start, start, start)
    segments[-1], log_end = _find_end(segments[-1], are_checksums_checked=options.is_until_log_end)
    start = min(max(place.log_start_offset, segments[0].base_offset), log_end)
    end = max(start, log_end if place.high_watermark is None else min(place.high_watermark, log_end))
    if options.isolation is Isolation.READ_UNCOMMITTED:
        return PartitionSnapshot(place.tp, tuple(segments), start, end, log_end)
    state = None if states is None else states.get(place.tp)
    if state is None or not start <= state.offset <= end:
        state = TransactionState.at_snapshot(place.directory, snapshots, end_offset=end, start_offset=start)
    state.advance(segments, end)
    if states is not None:
        states[place.tp] = state
    stable = max(start, min(end, state.stable_offset()))
    aborted = {one for one in state.aborted if one[2] >= start and one[1] < stable} | indexed_aborts(
        segments, start_offset=start, end_offset=stable
    )
    return PartitionSnapshot(place.tp, tuple(segments), start, stable, log_end, frozenset(aborted))


def _list(place: Place) -> tuple[list[Segment], list[Offset]]:
    """List the segments and the offsets of the producer snapshots.

    While the cleaner puts a rewritten segment in place, files are missing for a moment; this function waits for them.
    """
    for _ in range(ATTEMPTS):
        try:
            names = [entry.name for entry in FILESYSTEM.list(place.directory)]
            if not any(name.endswith(DATA_SUFFIX + SWAP_SUFFIX) for name in names):
                segments = [Segment.of(place.directory, offset) for offset in _offsets(names, DATA_SUFFIX)]
                return segments, _offsets(names, producer_snapshot.SUFFIX)
        except FileNotFoundError as error:  # deleted between listing and opening
            if not FILESYSTEM.exists(place.directory):
                raise PipelineError(f"the topic {place.tp.topic} was deleted while the job read it") from error
        except OSError as error:
            raise PipelineError(f"{place.directory} cannot be read: {error}") from error
        time.sleep(PAUSE_S)
    raise PipelineError(f"{place.directory} holds an unfinished rewrite (.swap files): start its broker once to finish it")


def _offsets(names: list[str], suffix: str) -> list[Offset]:
    return [offset for offset in (offset_of(name) for name in names if name.endswith(suffix)) if offset >= 0]


def _find_end(segment: Segment, *, are_checksums_checked: bool) -> tuple[Segment, Offset]:
    """Return the last segment without a torn or preallocated end, and the offset after its last whole batch."""
    file = segment.open()
    if file is None:
        return segment, segment.base_offset
    end, position = segment.base_offset, SegmentLookup(segment, file).last_position()
    try:
        for entry in walk(file, position, limit=segment.size):
            if are_checksums_checked and entry.magic == MAGIC:
                batch = BatchView(memoryview(file.pread(entry.size, entry.position)))
                if not batch.is_valid:
                    break
            end, position = entry.last_offset + 1, entry.position + entry.size
    except CorruptSegmentError:
        pass  # a batch that is being written, or was torn by a crash: the log ends before it
    return Segment(segment.directory, segment.base_offset, position, segment.inode), end
