"""Names of partitions' directories, and how a directory is given up: renamed to be removed later, or to be kept as a
stray.

    <topic>-<partition>                              a partition's log
    <topic>-<partition>.<32 hex digits>-future       a log on its way from another directory (`directory_moves`)
    <topic>-<partition>.<32 hex digits>-delete       deleted; removed after `file.delete.delay.ms`
    <topic>-<partition>.<32 hex digits>-stray        belongs to no known partition; never removed while it has records

A name has at most 255 bytes. If topic, partition and the rest do not fit, the topic is cut, never the partition, and
a stray has the whole name in a file of its own, `partition.name`.
"""

from __future__ import annotations

import logging
import re
import uuid
from typing import TYPE_CHECKING, Final

from pybroker.log.files.names import KEPT_SUFFIX
from pybroker.log.segments.segment_files import DATA_SUFFIX
from pybroker.model import TopicPartition

if TYPE_CHECKING:
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem

logger = logging.getLogger(__name__)

DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
NAME_BYTES_MAX: Final = 255
NAME_FILE: Final = "partition.name"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"  # a KRaft broker's own log, kept beside the others; never ours
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
_FUTURE_DIRECTORY: Final = re.compile(_PARTITION_DIRECTORY.pattern + r"\.[0-9a-f]{32}" + FUTURE_SUFFIX)
_DELETED_DIRECTORY: Final = re.compile(r".*\.[0-9a-f]{32}" + DELETE_SUFFIX)


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition whose log a directory of that name holds; None if it is no partition's."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or match[1] == CLUSTER_METADATA_TOPIC:
        return None
    return TopicPartition(match[1], int(match[2]))


def partition_of_future(name: str) -> TopicPartition | None:
    """Return the partition whose future log a directory of that name holds."""
    match = _FUTURE_DIRECTORY.fullmatch(name)
    return None if match is None else TopicPartition(match[1], int(match[2]))


def is_deleted(name: str) -> bool:
    """Return whether a directory of that name waits for its removal."""
    return _DELETED_DIRECTORY.fullmatch(name) is not None


def name_away(tp: TopicPartition, suffix: str) -> str:
    """Return a new name for the partition's directory that ends in `suffix`."""
    ending = f"-{tp.partition}.{uuid.uuid4().hex}{suffix}"
    return tp.topic[: NAME_BYTES_MAX - len(ending)] + ending


def rename_away(directory: LogDirectory, path: str, tp: TopicPartition, suffix: str) -> str:
    """Free the name of a partition's directory. Returns the new path. Raises OSError."""
    name = name_away(tp, suffix)
    filesystem = directory.filesystem
    if suffix == STRAY_SUFFIX and not name.startswith(f"{tp}."):
        filesystem.write_file(f"{path}/{NAME_FILE}", f"{tp}\n".encode(), sync=True)
    filesystem.rename(path, f"{directory.path}/{name}")
    directory.note_names()
    return f"{directory.path}/{name}"


def delete_later(directory: LogDirectory, path: str, tp: TopicPartition, due_ms: int) -> None:
    """Free the name at once and remove the files from `due_ms`, of the monotonic clock, on. Raises OSError."""
    target = rename_away(directory, path, tp, DELETE_SUFFIX)
    directory.remove_tree_later(due_ms, target[len(directory.path) + 1 :])


def set_aside(directory: LogDirectory, path: str, tp: TopicPartition, *, reason: str, now_ms: int) -> str | None:
    """Keep a partition's directory as a stray, or remove it if it holds no record. Returns the stray's path. Raises OSError."""
    if not has_records(directory.filesystem, path):
        logger.info("%s %s, and holds no record: it is removed", path, reason)
        delete_later(directory, path, tp, now_ms)
        return None
    target = rename_away(directory, path, tp, STRAY_SUFFIX)
    logger.warning("%s %s; its data is kept in %s", path, reason, target)
    return target


def has_records(filesystem: Filesystem, path: str) -> bool:
    """Return whether any data file in the partition's directory has a byte, also one of a rewrite or deletion, or a kept
    one.
    """
    return any(
        (DATA_SUFFIX in entry.name or entry.name.endswith(KEPT_SUFFIX))
        and entry.is_file()
        and filesystem.file_size(entry.path) > 0
        for entry in filesystem.list(path)
    )
