"""Finds out what a path is: a data directory, a partition's directory, or one of the files of a log."""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import COMPANION_SUFFIX
from pybroker.log.directories.directory import LOCK_FILE
from pybroker.log.files.names import OFFSET_DIGITS, offset_of
from pybroker.log.files.room import RESERVE_FILE
from pybroker.log.recovery.leftovers import DAMAGED_SUFFIX, TEMPORARY_SUFFIXES
from pybroker.log.segments.segment_files import SWAP_SUFFIX
from pybroker.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTERNAL_COMPACTED: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
"""The snapshot with which a new KRaft cluster begins."""
_KNOWN_STARTS: Final = (
    *(checkpoint.META_PROPERTIES_FILE, checkpoint.CLEAN_SHUTDOWN_FILE, checkpoint.BOOT_FILE, LOCK_FILE),
    *(RESERVE_FILE, checkpoint.CLIENTS_FILE, "metadata.sqlite", "quorum-state", "partition.name"),
)
"""The first parts of the names of other files that a broker, this one or Kafka, keeps in these directories."""
_KNOWN_ENDS: Final = (*TEMPORARY_SUFFIXES, SWAP_SUFFIX, DAMAGED_SUFFIX, ".part")
_PARTITION: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+?)-(?P<number>\d+)((\.[\w-]+)?-(delete|future|stray))?")
_DELETED: Final = "-delete"


class Place(Enum):
    """The kinds of files and directories."""

    DATA_DIRECTORY = "data directory"
    PARTITION = "partition"
    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    METADATA_SNAPSHOT = ".checkpoint"
    LEADER_EPOCHS = checkpoint.LEADER_EPOCH_FILE
    OFFSETS = "offset checkpoint"
    COMPANION = COMPANION_SUFFIX
    PARTITION_METADATA = checkpoint.PARTITION_METADATA_FILE


_BY_SUFFIX: Final = {
    place.value: place
    for place in (Place.LOG, Place.OFFSET_INDEX, Place.TIME_INDEX, Place.TRANSACTION_INDEX, Place.PRODUCER_SNAPSHOT)
}
_BY_NAME: Final = {
    Place.LEADER_EPOCHS.value: Place.LEADER_EPOCHS,
    Place.PARTITION_METADATA.value: Place.PARTITION_METADATA,
    BOOTSTRAP_SNAPSHOT: Place.METADATA_SNAPSHOT,
    **dict.fromkeys(checkpoint.OFFSET_FILES, Place.OFFSETS),
    **dict.fromkeys((name + COMPANION_SUFFIX for name in checkpoint.OFFSET_FILES), Place.COMPANION),
}


class UnknownPlaceError(Exception):
    """The path is nothing that belongs to a log; the message is one line for a person."""


def place_of(path: Path) -> Place:
    """Return what the path is. Raises UnknownPlaceError, and OSError if it cannot be read."""
    if path.is_dir():
        return _place_of_directory(path)
    if not path.exists():
        raise UnknownPlaceError(f"{path}: there is no such file or directory")
    place = place_of_file(path)
    if place is None or not path.is_file():
        raise UnknownPlaceError(f"{path}: no file of a log has such a name")
    return place


def place_of_file(path: Path) -> Place | None:
    """Return what a file is by its name; None if it is no file of a log."""
    if path.name in _BY_NAME:
        return _BY_NAME[path.name]
    if path.suffix == Place.METADATA_SNAPSHOT.value and re.fullmatch(rf"\d{{{OFFSET_DIGITS}}}-\d+", path.stem):
        return Place.METADATA_SNAPSHOT
    return _BY_SUFFIX.get(path.suffix) if offset_of(path.name) >= 0 else None


def _place_of_directory(path: Path) -> Place:
    names = {one.name for one in path.iterdir()}
    if names & {checkpoint.META_PROPERTIES_FILE, *checkpoint.OFFSET_FILES}:
        return Place.DATA_DIRECTORY
    if partition_of(path) is not None or any(offset_of(name) >= 0 for name in names):
        return Place.PARTITION
    if any(partitions_in(path)):
        return Place.DATA_DIRECTORY
    if several := sorted(name for name in names if re.fullmatch(r"broker_\d+", name)):
        raise UnknownPlaceError(f"{path}: the data of several brokers is below it: name one of them, such as {path / several[0]}")
    raise UnknownPlaceError(f"{path}: the directory holds no log")


def partition_of(path: Path) -> TopicPartition | None:
    """Return the partition that a directory's name has, also if it is a stray or future one; None for other names."""
    return partition_of_name(path.resolve().name)


def partition_of_name(name: str) -> TopicPartition | None:
    """Return the partition that the name of a directory has; None for other names."""
    match = _PARTITION.fullmatch(name)
    return TopicPartition(match["topic"], int(match["number"])) if match else None


def partitions_in(path: Path) -> Iterator[Path]:
    """Yield the partitions' directories of a data directory, in order, without those that are being deleted."""
    for one in sorted(path.iterdir()):
        if one.is_dir() and partition_of(one) is not None and not one.name.endswith(_DELETED):
            yield one


def files_in(path: Path) -> Iterator[tuple[Place, Path]]:
    """Yield the files of a log in a directory, in order of their names."""
    for one in sorted(path.iterdir()):
        place = place_of_file(one)
        if place is not None and one.is_file():
            yield place, one


class Oddity(NamedTuple):
    """An entry of a directory that is no file or directory of a log. It is a fault if its name promises one."""

    path: Path
    kind: str
    text: str
    is_fault: bool


def oddities_in(path: Path) -> Iterator[Oddity]:
    """Yield the entries of a data directory or a partition that are not what they should be, or that are not known."""
    for one in sorted(path.iterdir()):
        if not os.path.lexists(one):
            continue  # removed meanwhile
        is_named = place_of_file(one) is not None or partition_of_name(one.name) is not None
        if one.is_symlink() and not one.exists():
            yield Oddity(one, "link", f"the link leads to {one.readlink()}, which cannot be reached", is_fault=True)
        elif place_of_file(one) is not None and one.is_dir():
            yield Oddity(one, "directory", "a directory has the name of a file of a log", is_fault=True)
        elif partition_of_name(one.name) is not None and one.is_file():
            yield Oddity(one, "unknown", "a file with the name of a partition's directory", is_fault=False)
        elif is_named and not one.is_file() and not one.is_dir():
            yield Oddity(one, "file", "neither a file nor a directory", is_fault=True)
        elif not is_named and not one.name.startswith(_KNOWN_STARTS) and not one.name.endswith(_KNOWN_ENDS):
            yield Oddity(one, "unknown", "not one of the files of a log", is_fault=False)
