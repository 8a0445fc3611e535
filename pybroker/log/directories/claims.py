"""Decides which of the configured log directories this broker may use, and which of its earlier directories are missing.

Idea (KIP-858)
    Each directory has an id in its `meta.properties`. The metadata store knows the ids that this broker has used,
    where each directory was last, and whether an administrator has given it up. So a disk that is not mounted is
    distinguished from a new, empty one:

    the path has                                  the directory is
    meta.properties of this broker                used, wherever it was before
    meta.properties of another broker or cluster  refused, and so is the start
    none, and no known directory was here last    new: it gets an id
    none, and a known directory was here last     offline: a disk that is not mounted, until mounted or forgotten

    A known directory that no configured path holds is away. While a directory is away or offline, a partition that is
    in no other directory is assumed to be there; `LogManager.create` explains that.

Source: KIP-858; MetaPropertiesEnsemble of Kafka.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.log.checkpoints import checkpoint
from pybroker.log.directories.directory import MissingDirectoryError
from pybroker.protocol.error_codes import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.model import BrokerId

logger = logging.getLogger(__name__)


class LogDirectoryInUseError(Exception):
    """Another broker holds the directory's lock."""


class InconsistentDirectoryError(Exception):
    """The directory belongs to another cluster or broker."""


@dataclass(slots=True, frozen=True, kw_only=True)
class KnownDirectory:
    """A log directory that the broker has used. `path` is the absolute path where it was last.

    `is_away` means that the last start did not find it, `is_forgotten` that an administrator has given it up.
    """

    directory_id: str
    path: str
    is_away: bool = False
    is_forgotten: bool = False


class Claims:
    """The claims of one start. Call `claim_all` first; then `known` is what the store must know from now on."""

    def __init__(self, known: Sequence[KnownDirectory], *, cluster_id: str, node_id: BrokerId) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.known = {one.directory_id: one for one in known}
        self._present: frozenset[str] = frozenset()
        self.came_back: set[str] = set()
        """The ids of directories that were away at the last start, or were forgotten, and are here."""

    @property
    def away(self) -> list[KnownDirectory]:
        """The known directories that were not found and were not given up."""
        return [one for one in self.known.values() if one.directory_id not in self._present and not one.is_forgotten]

    def is_forgotten(self, directory: LogDirectory) -> bool:
        """Return whether the directory had been given up before it came back."""
        properties = directory.properties
        return (
            properties is not None and properties.directory_id in self.known and self.known[properties.directory_id].is_forgotten
        )

    def settled(self) -> list[KnownDirectory]:
        """Return what the store must know after all logs are loaded: directories that came back are like the others.

        Before that they are still marked, so that a start that is interrupted is not the last one to know.
        """
        return [
            dataclasses.replace(one, is_away=False, is_forgotten=False) if directory_id in self.came_back else one
            for directory_id, one in sorted(self.known.items())
        ]

    def claim_all(self, directories: Sequence[LogDirectory]) -> None:
        """Lock each directory and make it this broker's; a directory that cannot be used is offline afterwards.

        Raises LogDirectoryInUseError, InconsistentDirectoryError; KafkaError if the process has too few descriptors.
        Nothing is locked then.
        """
        try:
            for directory in directories:
                self._read(directory)
            ids = {one.properties.directory_id for one in directories if one.properties is not None}
            for directory in directories:
                if not directory.is_offline:
                    self._claim(directory, ids)
        except (LogDirectoryInUseError, InconsistentDirectoryError, KafkaError):
            for directory in directories:
                directory.unlock()
            raise
        self._note_absent(directories)

    def _read(self, directory: LogDirectory) -> None:
        try:
            properties = checkpoint.read_meta_properties(directory.filesystem, directory.path)
        except checkpoint.CorruptCheckpointError as error:
            reason = f"{error}: its owner is unknown. Repair the file, or put it back from a copy, and start the broker again"
            directory.fail(MissingDirectoryError(errno.EINVAL, reason))
            return
        except OSError as error:
            _fail(directory, error)
            return
        if properties is not None and not self._owns(properties):
            raise InconsistentDirectoryError(self._explain_owner(directory.path, properties))
        directory.properties = properties

    def _owns(self, properties: checkpoint.MetaProperties) -> bool:
        return properties.node_id == self.node_id and properties.cluster_id in {None, self.cluster_id}

    def _explain_owner(self, path: str, properties: checkpoint.MetaProperties) -> str:
        """Return why a directory with these properties is not this broker's, and what to do."""
        node_id = properties.node_id
        if properties.cluster_id not in {None, self.cluster_id}:
            owner = f"{path} belongs to broker {node_id} of cluster {properties.cluster_id}"
            return f"{owner}, and this is broker {self.node_id} of cluster {self.cluster_id}: use another directory"
        return (
            f"{path} belongs to broker {node_id}, but node.id is {self.node_id}: set node.id={node_id} "
            f"(in a container KAFKA_NODE_ID={node_id}, or KAFKA_BROKER_ID where that is used), or use another directory"
        )

    def _claim(self, directory: LogDirectory, present_ids: set[str]) -> None:
        filesystem = directory.filesystem
        last_here = [one for one in self.known.values() if one.path == directory.absolute_path and not one.is_forgotten]
        missing = next((one for one in last_here if one.directory_id not in present_ids), None)
        if directory.properties is None and missing is not None:
            directory.fail(
                MissingDirectoryError(
                    errno.ENODEV,
                    f"it was directory {missing.directory_id} and has no meta.properties now: is its disk mounted? If it is lost "
                    f"for good, stop the broker, run 'pybroker directories forget {missing.directory_id}', and start it again",
                )
            )
            return
        try:
            filesystem.make_directory(directory.path)
            directory.lock()
            if directory.properties is None or not directory.properties.is_complete:
                self._write(directory)
            else:
                directory.sync_names()  # a process that was killed may have made the file without making its name durable
            checkpoint.remove_temporary_files(filesystem, directory.path)
        except BlockingIOError as error:
            user = f"another broker, maybe of another container, uses the log directory {directory.path}"
            reason = f"{user}: stop it, or use another directory or volume"
            raise LogDirectoryInUseError(reason) from error
        except OSError as error:
            _fail(directory, error)

    def _write(self, directory: LogDirectory) -> None:
        """Make a new directory this broker's, or give the directory of an older Kafka its id. Raises OSError."""
        before = directory.properties
        directory_id = checkpoint.MetaProperties.new_directory_id() if before is None else before.directory_id
        properties = checkpoint.MetaProperties(cluster_id=self.cluster_id, node_id=self.node_id, directory_id=directory_id)
        checkpoint.write_meta_properties(directory.filesystem, directory.path, properties)
        directory.properties = properties

    def _note_absent(self, directories: Sequence[LogDirectory]) -> None:
        present: dict[str, LogDirectory] = {}
        for directory in directories:
            if directory.properties is None or directory.is_offline:
                continue
            directory_id = directory.properties.directory_id
            if directory_id in present:
                for one in directories:
                    one.unlock()
                raise InconsistentDirectoryError(
                    f"{directory.path} and {present[directory_id].path} have the same directory id {directory_id}: one is a copy"
                )
            present[directory_id] = directory
            before = self.known.get(directory_id)
            if before is not None and (before.is_away or before.is_forgotten):
                self.came_back.add(directory_id)
                logger.info("Log directory %s (%s) is back", directory.path, directory_id)
            self.known[directory_id] = KnownDirectory(
                directory_id=directory_id,
                path=directory.absolute_path,
                is_away=before is not None and before.is_away,
                is_forgotten=before is not None and before.is_forgotten,
            )
        self._present = frozenset(present)
        offline_paths = {one.absolute_path for one in directories if one.is_offline}
        for directory_id, absent in self.known.items():
            if directory_id not in present:
                self.known[directory_id] = dataclasses.replace(absent, is_away=True)
                if not absent.is_forgotten and absent.path not in offline_paths:
                    logger.error(
                        "Log directory %s, last at %s, is in none of log.dirs: partitions that are only there stay offline until "
                        "it is back. If it is gone for good: pybroker directories forget %s",
                        directory_id,
                        absent.path,
                        directory_id,
                    )


def _fail(directory: LogDirectory, error: OSError) -> None:
    """Take the directory offline. Raises KafkaError if the error is not the disk's fault, because the directory may have
    all the logs.
    """
    failure = directory.fail(error)
    if not directory.is_offline:
        raise failure from error


def stored_cluster_id(log_dirs: Sequence[str], filesystem: Filesystem) -> str | None:
    """Return the cluster that the first log directory with a `meta.properties` belongs to; None if all are new."""
    for path in log_dirs:
        try:
            properties = checkpoint.read_meta_properties(filesystem, path)
        except (OSError, checkpoint.CorruptCheckpointError):
            continue  # `LogManager.start` reads it again, and reports what is wrong
        if properties is not None and properties.cluster_id is not None:
            return properties.cluster_id
    return None
