"""Gives the log directories back to an Apache Kafka: writes KRaft's metadata beside the logs.

A KRaft broker takes every log that its own metadata does not know for a stray. So the topics with their ids, the partitions with
their directories, all settings and the next producer id become a snapshot in `__cluster_metadata-0`, with which Kafka starts. The
logs, checkpoints and committed offsets have Kafka's own formats and stay as they are.

Steps
    1. `__cluster_metadata-0.<32 hex digits>-delete` gets the snapshot, and is durable; so is `bootstrap.checkpoint`.
    2. `__cluster_metadata-0` of an earlier Kafka, if it is there, is renamed to `__cluster_metadata-0.<32 hex digits>-stray`. A
       file of that name, with which an adoption locked Kafka out, is removed.
    3. The new directory gets the name `__cluster_metadata-0`.
    4. The companions of checkpoints, which only this broker reads, are removed. A start without them believes the checkpoints
       themselves, which a clean stop has written for these very logs.
    5. One commit puts the prefix `left/` before the keys of all entries of our metadata store, which is a new store then.
       It comes last, because the command refuses a store without a cluster.
    Whatever the last step is, this broker starts before the commit and the command can be run again, and after the commit Kafka
    starts. Neither this broker nor Kafka takes a directory of the names in 1 and 2 for a partition's.

Source: KafkaMetadataLog.truncateToLatestSnapshot, BootstrapDirectory, LogManager.isStrayKraftReplica, StorageTool of Kafka.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pybroker.adoption import kafka_lockout
from pybroker.adoption.lost_metadata import AdoptionError
from pybroker.listed import listed
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import COMPANION_SUFFIX
from pybroker.log.directories import strays
from pybroker.metadata.directories import decode_directories, directories_key
from pybroker.metadata.entries import CLUSTER_ID_KEY, LEFT_PREFIX, PRODUCER_IDS_KEY, apply_changes
from pybroker.metadata.image import empty_image
from pybroker.metadata.kraft.cluster_records import METADATA_VERSIONS, cluster_records, feature_records, own_settings
from pybroker.metadata.kraft.reading import METADATA_DIRECTORY
from pybroker.metadata.kraft.writing import snapshot, snapshot_name
from pybroker.metadata.store.base import Change, Conflict
from pybroker.model import LeaderEpoch, Offset, ProducerId, TopicPartition, topic_id_parse, topic_id_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.metadata.image import ClusterImage
    from pybroker.metadata.store.base import Entry, Store

RELEASES: Final = tuple(METADATA_VERSIONS)
DEFAULT_RELEASE: Final = "3.9"
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
FIRST_EPOCH: Final = LeaderEpoch(1)
_UNFINISHED: Final = re.compile(re.escape(METADATA_DIRECTORY) + r"\.[0-9a-f]{32}" + strays.DELETE_SUFFIX)


class LeavingError(AdoptionError):
    """The directories cannot be given back; the text is one line for a person. Nothing was changed."""


@dataclass(slots=True, kw_only=True)
class Departure:
    """The data that Kafka gets. A note is one line for a person; `kept_aside` are the paths of metadata that was there before."""

    image: ClusterImage
    next_producer_id: ProducerId
    metadata_version: int
    metadata_log_dir: str
    features: list[object] = field(default_factory=list)
    records: list[object] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept_aside: list[str] = field(default_factory=list)


async def leave(
    store: Store,
    config: BrokerConfig,
    directories: Sequence[LogDirectory],
    *,
    release: str,
    clock: Clock,
    is_dry: bool = False,
) -> Departure:
    """Write KRaft's metadata for `release` into the first of the locked `directories`, and retire the store.

    With `is_dry` nothing changes. Raises LeavingError before anything was changed; OSError, StoreError.
    """
    if await store.get(CLUSTER_ID_KEY) is None:
        raise LeavingError("The metadata store has no cluster: no broker of pybroker has the directories")
    entries, revision = await store.list()
    image, _ = apply_changes(empty_image(config.node_id), [Change(*entry) for entry in entries], revision)
    by_key = {entry.key: entry for entry in entries}
    _refuse_absent(config, directories, by_key)
    _refuse_others(image, config, directories)
    counter = by_key.get(PRODUCER_IDS_KEY)
    departure = Departure(
        image=image,
        next_producer_id=ProducerId(0 if counter is None else int(counter.value)),
        metadata_version=METADATA_VERSIONS[release],
        metadata_log_dir=directories[0].absolute_path,
        features=feature_records(image, release),
    )
    places = _places(image, directories)
    departure.records = cluster_records(image, places, departure.next_producer_id, release)
    departure.notes += [
        f"{resource}: a setting is not carried over, because Kafka does not have it: {name}={value}"
        for resource, name, value in own_settings(image)
    ]
    if not is_dry:
        _write(departure, directories, clock.time_ms())
        _remove_companions(directories)
        await _retire(store, entries)
    return departure


# --- what is refused ---


def _refuse_absent(config: BrokerConfig, directories: Sequence[LogDirectory], by_key: Mapping[str, Entry]) -> None:
    """Refuse if a directory is missing, or may need a recovery that only this broker can do."""
    key = directories_key(config.node_id)
    known = decode_directories(key, by_key[key].value) if key in by_key else []
    ids = {one.properties.directory_id for one in directories if one.properties is not None and one.properties.is_complete}
    away = [one.path for one in known if one.directory_id not in ids and not one.is_forgotten]
    if away:
        raise LeavingError(
            f"{listed(away)} of this broker's log directories is not named, or not mounted: name every directory of log.dirs. If "
            "one is lost for good, give it up with 'pybroker directories forget' first"
        )
    for one in directories:
        if one.properties is None or not one.properties.is_complete:
            raise LeavingError(f"{one.path} has no complete meta.properties: start this broker with it once, and stop it")
        _refuse_directory_id(one.path, one.properties.directory_id)
        if not one.filesystem.exists(f"{one.path}/{checkpoint.CLEAN_SHUTDOWN_FILE}"):
            raise LeavingError(f"{one.path} was not left by a clean stop: start this broker once, which recovers it, and stop it")


def _refuse_directory_id(path: str, directory_id: str) -> None:
    try:
        topic_id_parse(directory_id)
    except ValueError as error:
        raise LeavingError(
            f"{path}/{checkpoint.META_PROPERTIES_FILE} has directory.id={directory_id}, which is no UUID of Kafka's, "
            "22 characters of URL-safe base64: put back what the file had"
        ) from error


def _refuse_others(image: ClusterImage, config: BrokerConfig, directories: Sequence[LogDirectory]) -> None:
    owner = directories[0].properties
    if owner is not None and owner.cluster_id != image.cluster_id:
        raise LeavingError(f"The metadata store is that of cluster {image.cluster_id}, the directories are of {owner.cluster_id}")
    elsewhere = [
        f"{topic.name}-{number} (replicas {','.join(map(str, partition.replicas))})"
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
        if partition.replicas != (config.node_id,)
    ]
    if elsewhere:
        raise LeavingError(f"{listed(elsewhere)} have replicas on other brokers: only one node can be given back")


def _places(image: ClusterImage, directories: Sequence[LogDirectory]) -> dict[TopicPartition, str]:
    """Return the id of the log directory of every partition.

    Raises LeavingError for a log that Kafka would not take for its partition's; OSError.
    """
    places: dict[TopicPartition, str] = {}
    for directory in directories:
        for entry in directory.filesystem.list(directory.path):
            if strays.partition_of_future(entry.name) is not None:
                raise LeavingError(
                    f"{entry.path} is moved to another directory: start this broker, let it end the move, and stop it"
                )
            tp = strays.partition_of(entry.name)
            if tp is None or not entry.is_dir():
                continue
            topic = image.topics.get(tp.topic)
            if topic is None or tp.partition >= len(topic.partitions) or tp in places:
                raise LeavingError(
                    f"{entry.path} belongs to no partition: start this broker once, which puts it aside, and stop it"
                )
            try:
                topic_id = checkpoint.read_partition_metadata(directory.filesystem, entry.path)
            except checkpoint.CorruptCheckpointError as error:
                raise LeavingError(str(error)) from error
            if topic_id != topic.topic_id:
                found = "no topic id" if topic_id is None else f"the topic id {topic_id_text(topic_id)}"
                raise LeavingError(f"{entry.path} has {found}, and {tp.topic} has {topic_id_text(topic.topic_id)}")
            assert directory.properties is not None  # `_refuse_absent`
            places[tp] = directory.properties.directory_id
    missing = [
        str(tp)
        for topic in image.topics.values()
        for tp in (TopicPartition(topic.name, number) for number in range(len(topic.partitions)))
        if tp not in places
    ]
    if missing:
        raise LeavingError(f"{listed(missing)} are in no directory: start this broker once, which creates them, and stop it")
    return places


# --- the steps ---


def _write(departure: Departure, directories: Sequence[LogDirectory], now_ms: int) -> None:
    for directory in directories:
        for entry in directory.filesystem.list(directory.path):
            if _UNFINISHED.fullmatch(entry.name) and entry.is_dir():
                directory.filesystem.remove_tree(entry.path)
    directory = directories[0]
    filesystem, path = directory.filesystem, f"{directory.path}/{METADATA_DIRECTORY}"
    new = f"{path}.{uuid.uuid4().hex}{strays.DELETE_SUFFIX}"
    data = snapshot(departure.records, epoch=FIRST_EPOCH, now_ms=now_ms)
    filesystem.make_directory(new)
    name = snapshot_name(next_offset=Offset(len(departure.records)), epoch=FIRST_EPOCH)
    filesystem.write_file(f"{new}/{name}", data, sync=True)
    filesystem.sync_directory(new)
    bootstrap = f"{directory.path}/{BOOTSTRAP_FILE}"
    if not filesystem.exists(bootstrap):
        filesystem.replace_file(bootstrap, snapshot(departure.features, epoch=FIRST_EPOCH, now_ms=now_ms), sync=True)
    for one in directories:
        kafka_lockout.let_in(one.filesystem, one.path)
        old = f"{one.path}/{METADATA_DIRECTORY}"
        if one.filesystem.exists(old):
            departure.kept_aside.append(f"{old}.{uuid.uuid4().hex}{strays.STRAY_SUFFIX}")
            one.filesystem.rename(old, departure.kept_aside[-1])
            one.filesystem.sync_directory(one.path)
    filesystem.rename(new, path)
    filesystem.sync_directory(directory.path)


async def _retire(store: Store, entries: Sequence[Entry]) -> None:
    """Move all entries below LEFT_PREFIX, where a person can still read them, and let the store be a new one."""
    current = [entry for entry in entries if not entry.key.startswith(LEFT_PREFIX)]
    puts = {LEFT_PREFIX + entry.key: entry.value for entry in current}
    deletes = {entry.key for entry in entries} - puts.keys()
    revision = next(entry.revision for entry in current if entry.key == CLUSTER_ID_KEY)
    outcome = await store.commit(puts=puts, deletes=deletes, compare={CLUSTER_ID_KEY: revision})
    if isinstance(outcome, Conflict):
        raise LeavingError("Another process has changed the metadata store: run the command again")


def _remove_companions(directories: Sequence[LogDirectory]) -> None:
    for directory in directories:
        for entry in directory.filesystem.list(directory.path):
            if entry.name.endswith(COMPANION_SUFFIX) and entry.is_file():
                directory.filesystem.remove(entry.path)
        directory.filesystem.sync_directory(directory.path)
