"""Checks a data directory, a partition or a file, beside a broker that may run.

A broker that runs renames, removes and replaces files. If something is wrong in a partition and its files have changed
meanwhile, the partition is checked again. A file that was removed meanwhile is no problem.

Which logs may have gaps
    Only compaction leaves gaps between offsets. Which topics are compacted is not written beside the logs. So a
    partition may have gaps if the cleaner's checkpoint names it, if its topic is an internal one that is compacted, or
    if one of its batches has fewer records than offsets.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.inspection.findings import Findings
from pybroker.inspection.places import INTERNAL_COMPACTED, Place, files_in, oddities_in, partition_of, partitions_in, place_of
from pybroker.inspection.verify_aborts import AbortCourse
from pybroker.inspection.verify_producers import ProducerCourse
from pybroker.inspection.verify_segment import Course, verify_segment
from pybroker.inspection.verify_small import read_epochs, read_offsets, verify_properties, verify_small
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.names import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pybroker.model import Offset, TopicPartition

ATTEMPTS: Final = 5
_INDEXES: Final = frozenset({Place.OFFSET_INDEX, Place.TIME_INDEX, Place.TRANSACTION_INDEX})
_OF_SEGMENTS: Final = _INDEXES | {Place.LOG, Place.LEADER_EPOCHS}


def verify(findings: Findings, path: Path, *, may_have_gaps: bool | None = None) -> None:
    """Check what is at `path`. Raises UnknownPlaceError, OSError.

    `may_have_gaps` shows whether the topics are compacted; None finds out.
    """
    place = place_of(path)
    if place is Place.DATA_DIRECTORY:
        _verify_data_directory(findings, path, may_have_gaps)
    elif place is Place.PARTITION:
        _verify_partition(findings, path, _may_have_gaps(path, may_have_gaps))
    elif place in {Place.LOG, Place.METADATA_SNAPSHOT}:
        course = Course(may_have_gaps=_may_have_gaps(path.parent, may_have_gaps))
        base_offset = offset_of(path.name) if place is Place.LOG else None
        _settle(findings, lambda found: verify_segment(found, path, course, base_offset=base_offset), [path])
    elif place in _INDEXES:
        _verify_index(findings, place, path)
    else:
        verify_small(findings, place, path)


def _may_have_gaps(partition: Path, known: bool | None) -> bool:
    """Return whether offsets may be missing in a partition, as far as that is written anywhere."""
    if known is not None:
        return known
    tp = partition_of(partition)
    if tp is None:
        return True  # not in a partition's directory: nothing is known of its topic
    cleaned = partition.resolve().parent / checkpoint.CLEANER_OFFSET_FILE
    return tp.topic in INTERNAL_COMPACTED or (cleaned.is_file() and tp in read_offsets(Findings(), cleaned))


def _verify_data_directory(findings: Findings, path: Path, may_have_gaps: bool | None) -> None:
    checkpoints: dict[str, tuple[Path, dict[TopicPartition, Offset]]] = {}
    _note_oddities(findings, path)
    with _readable(findings, path / checkpoint.META_PROPERTIES_FILE):
        verify_properties(findings, path)
    for place, file in files_in(path):  # before the logs, which only grow
        with _readable(findings, file):
            if place is Place.OFFSETS:
                checkpoints[file.name] = file, read_offsets(findings, file)
            elif place is Place.METADATA_SNAPSHOT:
                verify_segment(findings, file, Course(), base_offset=None)
            elif place not in _OF_SEGMENTS:
                verify_small(findings, place, file)
    ends: dict[TopicPartition, Offset] = {}
    for one in partitions_in(path):
        end = None
        with _readable(findings, one):
            end = _verify_partition(findings, one, _may_have_gaps(one, may_have_gaps))
        tp = partition_of(one)
        if tp is not None and end is not None and one.name == str(tp):
            ends[tp] = end
    for file, offsets in checkpoints.values():
        _verify_ends(findings, file, offsets, ends)


def _note_oddities(findings: Findings, path: Path) -> None:
    for one in oddities_in(path):
        if one.is_fault:
            findings.add(one.path, one.kind, one.text)
        else:
            findings.inform(one.path, one.text)


@contextlib.contextmanager
def _readable(findings: Findings, path: Path) -> Iterator[None]:
    """Report an error of the operating system as a problem, so that the other files are checked. A file that is gone raises."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        findings.add(path if error.filename is None else Path(error.filename), "unreadable", error.strerror or str(error))


def _verify_ends(
    findings: Findings, file: Path, offsets: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> None:
    for tp, offset in offsets.items():
        if tp in ends and offset > ends[tp]:
            findings.add(file, "checkpoint", f"{tp} has the offset {offset}, but its log ends at {ends[tp]}", offset=offset)


def _verify_partition(findings: Findings, path: Path, may_have_gaps: bool) -> Offset | None:
    """Check a partition's directory, and return the log's end offset; None if it is not known."""
    findings.counts["partitions"] += 1
    end: Offset | None = None
    for attempt in range(ATTEMPTS):
        before, found = _identities(path), Findings()
        try:
            end = _verify_partition_once(found, path, may_have_gaps)
        except FileNotFoundError:
            if attempt < ATTEMPTS - 1 or not path.exists():
                continue
            raise
        if not found.problem_count or before == _identities(path):
            break
    findings.merge(found)
    return end


def _verify_partition_once(findings: Findings, path: Path, may_have_gaps: bool) -> Offset | None:
    course = Course(may_have_gaps=may_have_gaps)
    segments: dict[Offset, dict[Place, Path]] = {}
    snapshots: list[Path] = []
    producers: list[Path] = []
    _note_oddities(findings, path)
    for place, file in files_in(path):
        if place in _INDEXES or place is Place.LOG:
            segments.setdefault(offset_of(file.name), {})[place] = file
        elif place is Place.LEADER_EPOCHS:
            with _readable(findings, file):
                course.epochs = read_epochs(findings, file)
        elif place is Place.METADATA_SNAPSHOT:
            snapshots.append(file)
        else:
            if place is Place.PRODUCER_SNAPSHOT:
                producers.append(file)
            with _readable(findings, file):
                verify_small(findings, place, file)
    by_producer = Findings()
    course.producers = ProducerCourse(by_producer, [] if may_have_gaps else producers)
    course.aborts = None if may_have_gaps else AbortCourse(by_producer)
    for number, files in sorted(segments.items()):
        data = files.pop(Place.LOG, None)
        if data is None:
            for file in files.values():
                findings.add(file, "index", "there is no data file beside the index")
            continue
        is_read = False
        with _readable(findings, data):
            verify_segment(findings, data, course, base_offset=number, indexes=list(files.items()))
            is_read = True
        if not is_read:
            course.stop()
    for one in snapshots:
        with _readable(findings, one):
            verify_segment(findings, one, Course(), base_offset=None)
    _verify_snapshots_end(findings, producers, course)
    if course.next_offset is not None:
        course.producers.compare(course.next_offset)
    if course.is_compacted:
        findings.forget("gap")
    else:
        findings.merge(by_producer)
    _verify_last_epoch(findings, path / checkpoint.LEADER_EPOCH_FILE, course)
    return course.next_offset


def _verify_snapshots_end(findings: Findings, paths: Sequence[Path], course: Course) -> None:
    for path in paths:
        offset = offset_of(path.name)
        if course.next_offset is not None and offset > course.next_offset:
            text = f"the snapshot is of offset {offset}, but the log ends at {course.next_offset}"
            findings.add(path, "snapshot", text, offset=offset)


def _verify_last_epoch(findings: Findings, path: Path, course: Course) -> None:
    last = course.epochs[-1] if course.epochs else None
    if last is not None and course.next_offset is not None and last.start_offset > course.next_offset:
        text = f"epoch {last.epoch} begins at offset {last.start_offset}, but the log ends at {course.next_offset}"
        findings.add(path, "epoch order", text, offset=last.start_offset)


def _verify_index(findings: Findings, place: Place, path: Path) -> None:
    """Check an index by the data beside it; what is wrong with the data itself is not reported."""
    data = path.with_suffix(Place.LOG.value)
    if not data.is_file():
        findings.add(path, "index", "there is no data file beside the index")
        return

    def check(found: Findings) -> None:
        all_found = Findings()
        course = Course(may_have_gaps=True)
        verify_segment(all_found, data, course, base_offset=offset_of(path.name), indexes=[(place, path)])
        found.counts = all_found.counts
        for one in all_found.problems:
            if one.path == path:
                found.add(*one[:3], position=one.position, offset=one.offset)

    _settle(findings, check, [path, data])


# --- beside a broker that runs ---


def _settle(findings: Findings, check: Callable[[Findings], None], files: Sequence[Path]) -> None:
    """Check files, again if they were replaced meanwhile."""
    for _ in range(ATTEMPTS):
        before, found = [_identity(one) for one in files], Findings()
        check(found)
        if not found.problem_count or before == [_identity(one) for one in files]:
            break
    findings.merge(found)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _identities(path: Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of the files that have to fit each other."""
    found = {}
    if path.is_dir():
        for place, file in files_in(path):
            if place in _OF_SEGMENTS:
                status = file.stat()
                found[file.name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found
