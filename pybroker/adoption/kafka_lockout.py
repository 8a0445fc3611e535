"""Keeps an Apache Kafka from starting with directories that this broker has taken over.

Kafka's own metadata would be out of date: it would assign producer ids again, drop records as duplicates, and go back to earlier
leader epochs. Without any metadata it would take every log for a stray. So after an adoption

    1. `__cluster_metadata-0` gets the name `__cluster_metadata-0.<32 hex digits>-stray`, which neither broker reads or removes;
    2. a file, no directory, takes the name `__cluster_metadata-0`. A KRaft Kafka fails at it before it opens any log.

`pybroker leave` removes the file. An adoption that ended between its commit and 2 is completed by the next `pybroker adopt`.

Source: KafkaRaftManager.createDataDir, UnifiedLog.parseTopicPartitionName of Kafka.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pybroker.log.directories.strays import STRAY_SUFFIX
from pybroker.metadata.kraft.reading import METADATA_DIRECTORY, has_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem

TEXT: Final = b"""pybroker has taken over this log directory from Apache Kafka, whose metadata, kept beside it, is out of date.
This file keeps Kafka from starting here. Use 'pybroker leave', which writes metadata for Kafka, to go back.
"""


def is_open(directory: LogDirectory) -> bool:
    """Return whether a Kafka could start with metadata of its own in the directory, or with none where it had some."""
    entries = {entry.name: entry.is_dir() for entry in directory.filesystem.list(directory.path)}
    was_moved = any(name.startswith(f"{METADATA_DIRECTORY}.") and name.endswith(STRAY_SUFFIX) for name in entries)
    return entries.get(METADATA_DIRECTORY, was_moved)


def note(directory: LogDirectory) -> str:
    """Return the line for a person about a directory that is going to be locked."""
    path = f"{directory.path}/{METADATA_DIRECTORY}"
    return (
        f"Kafka's metadata is out of date when this broker has started: {path} gets the name {path}.<32 hex digits>-stray, and "
        "no KRaft Kafka starts with the directory before 'pybroker leave'"
    )


def lock_out(directories: Sequence[LogDirectory]) -> None:
    """Do both steps wherever `is_open`. Raises OSError."""
    for directory in directories:
        if not is_open(directory):
            continue
        filesystem, path = directory.filesystem, f"{directory.path}/{METADATA_DIRECTORY}"
        for entry in filesystem.list(directory.path):
            if entry.name.startswith(f"{METADATA_DIRECTORY}.") and entry.name.endswith(".tmp") and entry.is_file():
                filesystem.remove(entry.path)  # a crash left it while the file was written
        if filesystem.exists(path):
            filesystem.rename(path, f"{path}.{uuid.uuid4().hex}{STRAY_SUFFIX}")
        filesystem.replace_file(path, TEXT, sync=True)
        filesystem.sync_directory(directory.path)


def let_in(filesystem: Filesystem, log_dir: str) -> None:
    """Remove the file of step 2, if it is there. Raises OSError."""
    if filesystem.exists(f"{log_dir}/{METADATA_DIRECTORY}") and not has_metadata(filesystem, log_dir):
        filesystem.remove(f"{log_dir}/{METADATA_DIRECTORY}")
        filesystem.sync_directory(log_dir)
