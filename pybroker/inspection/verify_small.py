"""Checks the small files: snapshots of producers, leader epochs, checkpoints of offsets, `partition.metadata`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pybroker.inspection.data_file import DataFile
from pybroker.inspection.entries import EntryError, checkpoint_entries, companion_lines, partition_metadata, producers
from pybroker.inspection.places import Place
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.files.names import offset_of
from pybroker.log.leader_epoch_cache import EpochEntry
from pybroker.model import LeaderEpoch, Offset, TopicPartition, topic_id_parse

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.inspection.findings import Findings


def verify_small(findings: Findings, place: Place, path: Path) -> None:
    """Check a file of one of the kinds above by itself. Raises OSError."""
    if place is Place.PRODUCER_SNAPSHOT:
        verify_producers(findings, path)
    elif place is Place.LEADER_EPOCHS:
        read_epochs(findings, path)
    elif place is Place.OFFSETS:
        read_offsets(findings, path)
    else:
        try:
            _ = companion_lines(path) if place is Place.COMPANION else partition_metadata(path)
        except EntryError as error:
            findings.add(path, error.kind, str(error), position=error.position)


def verify_producers(findings: Findings, path: Path) -> None:
    """Check a snapshot of producers; all that it knows must lie below the offset in its name. Raises OSError."""
    findings.counts["producer snapshots"] += 1
    limit, previous = offset_of(path.name), -1
    with DataFile(path) as file:
        try:
            for one in producers(file):
                if one.producer_id < 0 or one.producer_id == previous:
                    findings.add(path, "snapshot", f"the producer id is {one.producer_id}, after {previous}")
                elif max(one.last_offset, one.transaction_first_offset) >= limit:
                    text = f"producer {one.producer_id} has the last offset {one.last_offset} and a transaction from offset "
                    findings.add(path, "snapshot", f"{text}{one.transaction_first_offset}, but the snapshot is of offset {limit}")
                previous = one.producer_id
        except EntryError as error:
            findings.add(path, error.kind, str(error), position=error.position)


def verify_properties(findings: Findings, directory: Path) -> None:
    """Check `meta.properties` of a data directory, if it has one. Raises OSError."""
    path = directory / checkpoint.META_PROPERTIES_FILE
    try:
        properties = checkpoint.read_meta_properties(Filesystem(), str(directory))
    except checkpoint.CorruptCheckpointError as error:
        findings.add(path, "meta properties", str(error).removeprefix(f"{path}: "))
        return
    if properties is not None:
        try:
            topic_id_parse(properties.directory_id)
        except ValueError:
            text = f"directory.id={properties.directory_id} is no UUID: Kafka's form has 22 characters of URL-safe base64"
            findings.add(path, "meta properties", text)


def read_epochs(findings: Findings, path: Path) -> list[EpochEntry] | None:
    """Check the leader epochs, and return them; None if they cannot be read. Raises OSError."""
    try:
        entries = [
            EpochEntry(LeaderEpoch(int(epoch)), Offset(int(offset))) for epoch, offset in checkpoint_entries(path, fields=2)
        ]
    except EntryError as error:
        findings.add(path, error.kind, str(error), position=error.position)
        return None
    findings.counts["leader epochs"] += len(entries)
    for one, following in itertools.pairwise(entries):
        if following.epoch <= one.epoch or following.start_offset <= one.start_offset:
            text = f"epoch {following.epoch} at offset {following.start_offset} follows epoch {one.epoch} at {one.start_offset}"
            findings.add(path, "epoch order", text, offset=following.start_offset)
    return entries


def read_offsets(findings: Findings, path: Path) -> dict[TopicPartition, Offset]:
    """Check a checkpoint of offsets, and return them. Raises OSError."""
    if path.name == checkpoint.CLEANER_OFFSET_FILE and not path.stat().st_size:
        return {}  # Kafka begins with an empty file, and writes it when it has compacted a log
    try:
        entries = {
            TopicPartition(topic, int(partition)): Offset(int(offset))
            for topic, partition, offset in checkpoint_entries(path, fields=3)
        }
    except EntryError as error:
        findings.add(path, error.kind, str(error), position=error.position)
        return {}
    findings.counts["checkpoint entries"] += len(entries)
    for tp, offset in entries.items():
        if offset < 0:
            findings.add(path, "checkpoint", f"{tp} has the offset {offset}")
    return entries
