"""The small text files beside the data, each replaced as a whole.

    recovery-point-offset-checkpoint    below this offset the data is on the disk      per log directory:
    log-start-offset-checkpoint         below it the data is logically gone              0 (version) / number of entries /
    replication-offset-checkpoint       the high watermark                               topic partition offset
    cleaner-offset-checkpoint           where the next compaction begins                 (topic ids: in `offset_checkpoint`)
    leader-epoch-checkpoint             per partition: 0 / number of entries / epoch start-offset
    partition.metadata                  per partition: "version: 0", "topic_id: <text form>"
    meta.properties                     per log directory: version=1, cluster.id, node.id, directory.id; a Kafka with ZooKeeper
                                          writes version=0, cluster.id (since 2.4), broker.id, which is read, too
    .kafka_cleanshutdown                per log directory: {"version":0,"brokerEpoch":-1}; exists only while the broker is down;
                                          if any transaction index has entries, further lines of ours show how many each
                                          has: 0 / number of entries / topic partition base-offset count
    pybroker-clients.jsonl              in the first log directory: the counts of clients (`clients/file.py`)
    .pybroker_boot                      per log directory, in a cluster: the boot of the machine that last wrote to it

Source: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, MetaProperties,
CleanShutdownFileHandler of Kafka.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.model import ZERO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition, topic_id_parse, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pybroker.log.files.filesystem import Filesystem

VERSION: Final = 0
RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_FILE: Final = "replication-offset-checkpoint"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
BOOT_FILE: Final = ".pybroker_boot"
OFFSET_FILES: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE, CLEANER_OFFSET_FILE)
CLIENTS_FILE: Final = "pybroker-clients.jsonl"
_REPLACED_FILES: Final = (*OFFSET_FILES, META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, BOOT_FILE, CLIENTS_FILE)


AbortedCounts = dict[TopicPartition, dict[Offset, int]]
"""By partition and base offset of the segment, how many entries a transaction index has."""


class CorruptCheckpointError(Exception):
    """The file does not follow its format."""


def read_entries(filesystem: Filesystem, path: str, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint, each of `fields` words; empty if there is no file. Raises CorruptCheckpointError."""
    if not filesystem.exists(path):
        return []
    return _entries_of(path, filesystem.read_file(path), fields)


def _entries_of(path: str, text: bytes, fields: int) -> list[list[str]]:
    try:
        lines = text.decode(errors="replace").split("\n")
        version, expected = int(lines[0]), int(lines[1])
    except (ValueError, IndexError) as error:
        raise CorruptCheckpointError(f"{path}: the file does not begin with version and count") from error
    if version != VERSION:
        raise CorruptCheckpointError(f"{path}: unknown version {version}")
    if lines[-1]:  # "2 21" may have become "2 2": a file that was not synced may lose its end with the machine's power
        raise CorruptCheckpointError(f"{path}: the file ends within a line")
    entries = [line.split() for line in lines[2:] if line]
    if len(entries) != expected or any(len(entry) != fields for entry in entries):
        raise CorruptCheckpointError(f"{path}: the file has {len(entries)} entries, but announces {expected} of {fields} fields")
    return entries


def write_entries(filesystem: Filesystem, path: str, entries: Iterable[str], *, sync: bool) -> None:
    """Replace a checkpoint."""
    filesystem.replace_file(path, _entries_text(entries), sync=sync)


def _entries_text(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "\n".join((str(VERSION), str(len(lines)), *lines, "")).encode()


def read_offsets(filesystem: Filesystem, path: str) -> dict[TopicPartition, Offset]:
    """Read an offset checkpoint. Raises CorruptCheckpointError."""
    try:
        return {
            TopicPartition(topic, int(partition)): Offset(int(offset))
            for topic, partition, offset in read_entries(filesystem, path, fields=3)
        }
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: not a number") from error


def offsets_text(offsets: Iterable[tuple[TopicPartition, Offset]]) -> bytes:
    """Return an offset checkpoint of entries in their order, as it is in the file; `offset_checkpoint` writes it."""
    return _entries_text(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets)


def write_offsets(filesystem: Filesystem, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace an offset checkpoint as another program would, without topic ids. Blocks."""
    filesystem.replace_file(path, offsets_text(sorted(offsets.items())), sync=True)


def read_partition_metadata(filesystem: Filesystem, directory: str) -> TopicId | None:
    """Return the topic id of a partition's directory; None if there is no file. Raises CorruptCheckpointError."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not filesystem.exists(path):
        return None
    values = dict(line.split(": ", 1) for line in filesystem.read_file(path).decode(errors="replace").split("\n") if ": " in line)
    try:
        topic_id = topic_id_parse(values["topic_id"])
        version = int(values["version"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error
    if version != VERSION or topic_id == ZERO_TOPIC_ID:
        raise CorruptCheckpointError(f"{path}: version {version}, topic id {topic_id_text(topic_id)}")
    return topic_id


def write_partition_metadata(filesystem: Filesystem, directory: str, topic_id: TopicId, *, sync: bool = False) -> None:
    """Write the id of the topic that the directory belongs to. Blocks if `sync`."""
    text = f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}\n"
    filesystem.replace_file(f"{directory}/{PARTITION_METADATA_FILE}", text.encode(), sync=sync)


@dataclass(slots=True, frozen=True, kw_only=True)
class MetaProperties:
    """The cluster and the broker that a log directory belongs to."""

    cluster_id: str | None  # None: a Kafka before 2.4 did not note it
    node_id: BrokerId
    directory_id: str  # text form of a UUID, one per directory
    is_complete: bool = True  # False: the file had no directory id, as with a Kafka before 3.7, and this id is new
    is_of_zookeeper: bool = False  # version 0 of the file

    @staticmethod
    def new_directory_id() -> str:
        """Return a new id."""
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def read_meta_properties(filesystem: Filesystem, directory: str) -> MetaProperties | None:
    """Read the file; None if there is none. Raises CorruptCheckpointError."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not filesystem.exists(path):
        return None
    values: dict[str, str] = {}
    for line in filesystem.read_file(path).decode(errors="replace").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            values[key.strip()] = value.strip()
    try:
        if values["version"] not in {"0", "1"}:
            raise CorruptCheckpointError(f"{path}: version {values['version']}")
        is_newest = values["version"] == "1"
        directory_id = values.get("directory.id", "")
        return MetaProperties(
            cluster_id=values["cluster.id"] if is_newest else values.get("cluster.id"),
            node_id=BrokerId(int(values["node.id" if is_newest else "broker.id"])),
            directory_id=directory_id or MetaProperties.new_directory_id(),
            is_complete=bool(directory_id),
            is_of_zookeeper=values["version"] == "0",
        )
    except KeyError as error:
        raise CorruptCheckpointError(f"{path}: has no {error.args[0]}") from error
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error


def write_meta_properties(filesystem: Filesystem, directory: str, properties: MetaProperties) -> None:
    """Claim the directory. Blocks."""
    lines = (
        "#",
        f"cluster.id={properties.cluster_id}",
        f"directory.id={properties.directory_id}",
        f"node.id={properties.node_id}",
        "version=1",
        "",
    )
    filesystem.replace_file(f"{directory}/{META_PROPERTIES_FILE}", "\n".join(lines).encode(), sync=True)


def remove_temporary_files(filesystem: Filesystem, directory: str) -> None:
    """Remove the temporary files that a crash left in a log directory while files were replaced. Raises OSError."""
    for entry in filesystem.list(directory):
        if entry.name.endswith(".tmp") and entry.name.startswith(_REPLACED_FILES) and entry.is_file():
            filesystem.remove(entry.path)


@dataclass(slots=True, frozen=True)
class CleanShutdown:
    """A note of a clean stop: the entries of the transaction indexes that have any, None if it has not counted them."""

    aborted_counts: AbortedCounts | None


def take_clean_shutdown(filesystem: Filesystem, directory: str) -> CleanShutdown | None:
    """Return what the last broker on this directory has noted if it stopped cleanly, else None.

    Removes the marker, durably, so that a crash from now on is noticed.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if not filesystem.exists(path):
        return None
    _, _, text = filesystem.read_file(path).partition(b"\n")
    filesystem.remove(path)
    filesystem.sync_directory(directory)
    try:
        counts: AbortedCounts = {}
        for topic, partition, base_offset, count in _entries_of(path, text, fields=4):
            counts.setdefault(TopicPartition(topic, int(partition)), {})[Offset(int(base_offset))] = int(count)
    except (CorruptCheckpointError, ValueError):
        return CleanShutdown(None)
    return CleanShutdown(counts)


def write_clean_shutdown(filesystem: Filesystem, directory: str, aborted_counts: AbortedCounts | None = None) -> None:
    """Write the marker that everything is complete, as the last file of a stop. Blocks."""
    text = b'{"version":0,"brokerEpoch":-1}'
    if aborted_counts:
        text += b"\n" + _entries_text(
            f"{topic} {partition} {base_offset} {count}"
            for (topic, partition), counts in aborted_counts.items()
            for base_offset, count in counts.items()
        )
    filesystem.replace_file(f"{directory}/{CLEAN_SHUTDOWN_FILE}", text, sync=True)


def is_of_this_boot(filesystem: Filesystem, directory: str) -> bool:
    """Return whether `mark_boot` was called in the present boot of the machine."""
    path, boot_id = f"{directory}/{BOOT_FILE}", filesystem.boot_id()
    return bool(boot_id) and filesystem.exists(path) and filesystem.read_file(path) == boot_id


def mark_boot(filesystem: Filesystem, directory: str) -> None:
    """Note that the directory is written to in this boot. The file need not be durable: it is of no use after this boot."""
    filesystem.replace_file(f"{directory}/{BOOT_FILE}", filesystem.boot_id(), sync=False)
