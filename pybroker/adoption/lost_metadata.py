"""Makes a new metadata store out of what the data directories hold, or sets their logs aside: what to do when the store is lost.

Adopting
    The name of each partition directory gives its topic and number, and its `partition.metadata` the topic's id; a directory of
    a KRaft Kafka is the same. Topics get the settings that the broker gives by default (the coordinators' topics theirs),
    `cleanup.policy=compact` where a compaction has left its checkpoint, and the settings that the administrator asks for.
    Producer ids begin above every id in producers' snapshots and batch headers, and leader epochs above every epoch in the
    leaders' checkpoints and batch headers. Numbers that no broker has given do not count: a client may send any producer id, and
    no checksum covers a batch's leader epoch. All of it is one commit into an empty store, so a command that was cut short has
    changed nothing.
Cost
    Every batch header of every log is read: one page per 4 kB of small batches, one per large batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.clock import SystemClock
from pybroker.config.topic import TopicConfig
from pybroker.listed import listed
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import COMPANION_SUFFIX, read_stored
from pybroker.log.directories import strays
from pybroker.log.directories.claims import KnownDirectory
from pybroker.log.directories.directory import LOCK_FILE, LogDirectory
from pybroker.log.files.names import offset_of
from pybroker.log.files.room import RESERVE_FILE
from pybroker.log.leader_epoch_cache import EPOCH_CREDIBLE_MAX, HeaderEpochs
from pybroker.log.producers import producer_snapshot
from pybroker.log.producers.producer_snapshot import CorruptSnapshotError
from pybroker.log.recovery import old_formats
from pybroker.log.segments.batch_scan import CorruptDataError
from pybroker.log.segments.segment import LogSegment
from pybroker.log.segments.segment_files import DATA_SUFFIX
from pybroker.metadata import names
from pybroker.metadata.directories import directories_key, encode_directories
from pybroker.metadata.entries import (
    CLUSTER_ID_KEY,
    LEADER_EPOCH_KEY,
    PRODUCER_IDS_KEY,
    encode_leader_epoch,
    encode_topic,
    leader_epoch_floor_key,
    topic_key,
)
from pybroker.metadata.image import PartitionImage, TopicImage
from pybroker.metadata.internal_topics import automatic_topic
from pybroker.metadata.store.base import ABSENT, Conflict, Store
from pybroker.model import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
    topic_id_text,
)

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.files.filesystem import Filesystem
    from pybroker.records.batch import BatchView

logger = logging.getLogger(__name__)

COMPACT: Final = "compact"
MISSING_MAX: Final = 10_000
"""How many partitions of one topic can be made again, as many as one CreateTopics request makes at most."""
PRODUCER_ID_CREDIBLE_MAX: Final = ProducerId((1 << 62) - 1)
"""No broker gives larger ids, and none has to: an id above it, which is damage or a client's own, cannot be met by counting."""
NOT_NEW: Final = "The metadata store is not new: it already has a cluster, so there is nothing to adopt"


class AdoptionError(Exception):
    """The command cannot be done; the text is one line for a person. Nothing was changed."""


@dataclass(slots=True)
class Holding:
    """The logs of one topic's name that the directories hold."""

    ids: Counter[TopicId] = field(default_factory=Counter)
    unnamed: list[tuple[Filesystem, str]] = field(default_factory=list)  # directories of logs without a topic id
    numbers: dict[TopicId | None, set[int]] = field(default_factory=dict)  # partitions by the topic id of their log
    futures: set[int] = field(default_factory=set)  # partitions that were being moved: a future log is no whole copy
    is_compacted: bool = False

    @property
    def partitions(self) -> set[int]:
        """The numbers of all logs, of whatever topic id."""
        return set().union(*self.numbers.values())

    def partitions_of(self, topic_id: TopicId) -> set[int]:
        """Return the numbers of the logs that a topic of this id takes: those of its id, and those without an id."""
        return self.numbers.get(topic_id, set()) | self.numbers.get(None, set())

    def strays_of(self, topic: str, topic_id: TopicId, count: int) -> list[str]:
        """Return what the start puts aside: logs of other ids, and of numbers from `count` on."""
        found = [
            f"{topic}-{number} (topic id {topic_id_text(other)})"
            for other, numbers in self.numbers.items()
            if other is not None and other != topic_id
            for number in sorted(numbers)
        ]
        return found + [f"{topic}-{number}" for number in sorted(self.partitions_of(topic_id)) if number >= count]


NO_HOLDING: Final = Holding()
NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(slots=True)
class Survey:
    """The content of all directories. The largest producer id and leader epoch are -1 where there is none."""

    cluster_id: str | None = None
    is_owned: bool = False  # whether a directory has meta.properties
    known: list[KnownDirectory] = field(default_factory=list)
    unowned: list[str] = field(default_factory=list)  # directories without meta.properties, beside some that have one
    topics: dict[str, Holding] = field(default_factory=dict)
    largest_producer_id: ProducerId = NO_PRODUCER_ID
    largest_epoch: LeaderEpoch = NO_LEADER_EPOCH
    old_formats: list[OldFormats] = field(default_factory=list)
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    is_of_zookeeper: bool = False  # whether the Kafka had its metadata in ZooKeeper
    was_used_here: bool = False  # whether this broker, not only another Kafka, has served the directories
    is_clean: bool = True  # whether every directory has the marker of a clean stop


class OldFormats(NamedTuple):
    """The data files of a partition that have messages of magic 0 or 1."""

    filesystem: Filesystem
    directory: str
    names: list[str]


class OpenTransaction(NamedTuple):
    """A transaction whose end is not in the log."""

    partition: TopicPartition
    producer_id: ProducerId
    first_offset: Offset


@contextmanager
def locked(config: BrokerConfig, filesystem: Filesystem, *, is_dry: bool = False) -> Iterator[list[LogDirectory]]:
    """Lock the configured directories and yield them. Raises AdoptionError when one is in use, missing, or another broker's.

    No reserve is made, which would be a sign that this broker has used the directory. With `is_dry` no file is made at all: a
    directory that has no lock file is in no broker's use.
    """
    directories = [LogDirectory(path.rstrip("/") or "/", filesystem) for path in config.log_dirs]
    plain_locks = []
    try:
        for directory in directories:
            if not filesystem.exists(directory.path):
                raise AdoptionError(f"There is no directory {directory.path}: is its disk mounted?")
            if not is_dry and filesystem.exists(f"{directory.path}/{RESERVE_FILE}"):
                directory.lock()  # with the reserve, for what the command writes to a full volume
            elif not is_dry or filesystem.exists(f"{directory.path}/{LOCK_FILE}"):
                plain_locks.append(filesystem.lock(f"{directory.path}/{LOCK_FILE}"))
            try:
                directory.properties = checkpoint.read_meta_properties(filesystem, directory.path)
            except checkpoint.CorruptCheckpointError as error:
                raise AdoptionError(f"{error}; repair or remove that file") from error
        owned = [one.properties for one in directories if one.properties is not None]
        clusters = {one.cluster_id for one in owned if one.cluster_id is not None}
        owners = {one.node_id for one in owned}
        if len(clusters) > 1 or len(owners) > 1:
            shown = sorted({f"broker {one.node_id} of cluster {one.cluster_id or 'without an id'}" for one in owned})
            raise AdoptionError(f"The directories belong to different brokers or clusters: {', '.join(shown)}")
        if owners - {config.node_id}:
            owner = owners.pop()
            reason = f"The directories belong to broker {owner}, but node.id is {config.node_id}"
            raise AdoptionError(
                f"{reason}: set node.id={owner} (in a container KAFKA_NODE_ID={owner} or KAFKA_BROKER_ID={owner})"
            )
        yield directories
    except BlockingIOError as error:
        raise AdoptionError("A broker uses the log directories: stop it first") from error
    finally:
        for directory in directories:
            directory.unlock()
        for fd in plain_locks:
            filesystem.close(fd)


def holds_logs(directory: LogDirectory) -> bool:
    """Return whether a partition's log is in the directory. Raises OSError."""
    return any(strays.partition_of(entry.name) is not None for entry in directory.filesystem.list(directory.path))


def survey(directories: Sequence[LogDirectory]) -> Survey:
    """Read what the directories hold; messages of old formats count as what they become.

    Raises OSError; AdoptionError for a file that cannot be converted.
    """
    found = Survey()
    for directory in directories:
        if directory.properties is None:
            found.unowned.append(directory.path)
        else:
            found.is_owned = True
            found.cluster_id = directory.properties.cluster_id or found.cluster_id
            found.is_of_zookeeper |= directory.properties.is_of_zookeeper
            if directory.properties.is_complete:
                known = KnownDirectory(directory_id=directory.properties.directory_id, path=directory.absolute_path)
                found.known.append(known)
        found.is_clean &= directory.filesystem.exists(f"{directory.path}/{checkpoint.CLEAN_SHUTDOWN_FILE}")
        for entry in directory.filesystem.list(directory.path):
            found.was_used_here |= entry.name.endswith(COMPANION_SUFFIX)
            tp = strays.partition_of(entry.name)
            future = strays.partition_of_future(entry.name)
            if tp is not None and entry.is_dir():
                _note_log(found, directory.filesystem, tp, entry.path)
                _look_into(found, directory.filesystem, tp, entry.path)
            elif future is not None and entry.is_dir():
                found.topics.setdefault(future.topic, Holding()).futures.add(future.partition)
                _look_into(found, directory.filesystem, future, entry.path)
        compacted = _compacted(directory)
        for name in compacted & found.topics.keys():
            found.topics[name].is_compacted = True
    return found


def _note_log(found: Survey, filesystem: Filesystem, tp: TopicPartition, path: str) -> None:
    holding = found.topics.setdefault(tp.topic, Holding())
    try:
        topic_id = checkpoint.read_partition_metadata(filesystem, path)
    except checkpoint.CorruptCheckpointError as error:
        logger.warning("A log has no readable topic id and will get that of its topic: %s", error)
        topic_id = None
    if topic_id is not None:
        holding.ids[topic_id] += 1
    else:
        holding.unnamed.append((filesystem, path))
    holding.numbers.setdefault(topic_id, set()).add(tp.partition)


def _look_into(found: Survey, filesystem: Filesystem, tp: TopicPartition, path: str) -> None:
    try:
        epochs = checkpoint.read_entries(filesystem, f"{path}/{checkpoint.LEADER_EPOCH_FILE}", fields=2)
        largest = max((LeaderEpoch(int(epoch)) for epoch, _ in epochs), default=NO_LEADER_EPOCH)
        if largest > EPOCH_CREDIBLE_MAX:
            raise ValueError(f"{path}/{checkpoint.LEADER_EPOCH_FILE}: no election has reached the epoch {largest}")
        found.largest_epoch = max(found.largest_epoch, largest)
    except (checkpoint.CorruptCheckpointError, ValueError) as error:
        logger.warning("Ignoring a file of leader epochs, which the batches have too: %s", error)
    for offset in producer_snapshot.list_offsets(filesystem, path):
        try:
            entries = producer_snapshot.read(filesystem, producer_snapshot.path(path, offset))
            credible = (one.producer_id for one in entries if one.producer_id <= PRODUCER_ID_CREDIBLE_MAX)
            found.largest_producer_id = max([found.largest_producer_id, *credible])
        except CorruptSnapshotError as error:
            logger.warning("Ignoring a snapshot of producers, whose ids the batches have too: %s", error)
    batches = _Batches(found, path, HeaderEpochs(path))

    def look_through(name: str) -> None:
        if name.endswith(DATA_SUFFIX):
            batches.look_through(LogSegment.open(filesystem, path, offset_of(name), TopicConfig()))

    try:
        old_names = old_formats.rehearse(filesystem, path, batches.visit, look_through)
    except old_formats.OldFormatError as error:
        raise AdoptionError(str(error)) from error
    if old_names:
        found.old_formats.append(OldFormats(filesystem, path, old_names))
    found.open_transactions += [OpenTransaction(tp, producer_id, offset) for producer_id, offset in batches.open.items()]


@dataclass(slots=True)
class _Batches:
    """The facts that the batches of a partition show. `open` are the first offsets of its transactions that have no end."""

    found: Survey
    path: str  # the partition's directory, or the file that is read
    epochs: HeaderEpochs
    has_warned: bool = False
    open: dict[ProducerId, Offset] = field(default_factory=dict)

    def visit(self, batch: BatchView) -> None:
        self.found.largest_epoch = max(self.found.largest_epoch, self.epochs.of(batch))
        if batch.producer_id <= PRODUCER_ID_CREDIBLE_MAX:  # a smaller id that is damage does no harm: no checksum is read for it
            self.found.largest_producer_id = max(self.found.largest_producer_id, batch.producer_id)
        elif not self.has_warned:
            self.has_warned = True
            logger.warning(
                "%s: the batch at offset %d has the producer id %d, which no broker has given: new ids begin without regard to it"
                ", and to others above %d in that partition",
                self.path,
                batch.base_offset,
                batch.producer_id,
                PRODUCER_ID_CREDIBLE_MAX,
            )
        if batch.is_transactional and batch.is_control:
            self.open.pop(batch.producer_id, None)
        elif batch.is_transactional:
            self.open.setdefault(batch.producer_id, batch.base_offset)

    def look_through(self, segment: LogSegment) -> None:
        before = self.path, self.epochs
        self.path, self.epochs = segment.path, HeaderEpochs(segment.path)
        try:
            for _, batch in segment.scan(0):
                self.visit(batch)
        except CorruptDataError as error:
            logger.warning("%s is damaged %s; the broker's start will report what is lost of it", segment.path, error)
        finally:
            self.path, self.epochs = before
            segment.release()


def _compacted(directory: LogDirectory) -> set[str]:
    path = f"{directory.path}/{checkpoint.CLEANER_OFFSET_FILE}"
    if directory.filesystem.exists(path) and not directory.filesystem.file_size(path):
        return set()  # Kafka begins with an empty file
    try:
        stored = read_stored(directory.filesystem, path)
    except checkpoint.CorruptCheckpointError as error:
        logger.warning("The cleaner's checkpoint cannot be read, so no topic counts as compacted: %s", error)
        return set()
    return {tp.topic for tp in stored}


def missing_numbers(name: str, present: set[int], count: int) -> list[int]:
    """Return which of `count` partitions have no log. Raises AdoptionError if that is more than a topic of Kafka's can miss."""
    if count - len(present) > MISSING_MAX:
        raise AdoptionError(
            f"{name}-{count - 1} would be the last of {count} partitions of {name}, of which {len(present)} have a log: if that "
            "directory is no log of Kafka's, move it out of the log directory"
        )
    return [number for number in range(count) if number not in present]


def topics_of(
    found: Survey,
    config: BrokerConfig,
    settings: Mapping[str, str],
    *,
    are_gaps_allowed: bool,
    gaps_option: str = "--allow-missing",
) -> list[TopicImage]:
    """Return the topics to be made. Raises AdoptionError if partitions are missing that may lie on an unmounted disk.

    `gaps_option` is the option of the command that sets `are_gaps_allowed`.
    """
    if found.is_owned and found.unowned and not are_gaps_allowed:
        raise AdoptionError(
            f"{', '.join(found.unowned)} has no meta.properties, like an empty mount point: is a disk not mounted? With "
            f"{gaps_option}, topics that are only there are left out"
        )
    images = []
    for name, holding in sorted(found.topics.items()):
        topic_id = _id_of(name, holding)
        count = max(holding.partitions | holding.futures) + 1
        missing = missing_numbers(name, holding.partitions_of(topic_id), count)
        if missing and not are_gaps_allowed:
            shown = listed([f"{name}-{number}" for number in missing])
            of = f" with the topic id {topic_id_text(topic_id)}, that of most logs" if len(holding.ids) > 1 else ""
            raise AdoptionError(
                f"{shown} is in no directory{of}, and {name} has {count} partitions: is a disk not mounted? With "
                f"{gaps_option}, missing partitions are made again, empty"
            )
        configs = dict(automatic_topic(name, config).configs)
        if not names.is_internal(name):
            configs |= {"cleanup.policy": COMPACT} if holding.is_compacted else {}
            configs |= settings
        configs_set = {key: value for key, value in configs.items() if value is not None}
        images.append(topic_image(found, config, name=name, topic_id=topic_id, count=count, configs=configs_set))
    return images


def topic_image(
    found: Survey, config: BrokerConfig, *, name: str, topic_id: TopicId, count: int, configs: Mapping[str, str]
) -> TopicImage:
    """Return a topic whose partitions this broker leads, in a leader epoch above all that were found."""
    partition = PartitionImage(
        leader=config.node_id,
        leader_epoch=LeaderEpoch(found.largest_epoch + 1),
        replicas=(config.node_id,),
        isr=(config.node_id,),
        partition_epoch=0,
    )
    return TopicImage(name=name, topic_id=topic_id, partitions=(partition,) * count, configs=configs)


def convert_old_formats(found: Survey) -> list[str]:
    """Rewrite all messages of magic 0 and 1 in magic 2, and build the indexes again. Returns the paths of the files.

    Raises OSError; AdoptionError for a file that cannot be converted.
    """
    converted = []
    try:
        for one in found.old_formats:
            for name in old_formats.convert(one.filesystem, one.directory):
                converted.append(f"{one.directory}/{name}")
                _build_indexes(one, name)
    except old_formats.OldFormatError as error:
        raise AdoptionError(str(error)) from error
    return converted


def _build_indexes(one: OldFormats, name: str) -> None:
    """Build the indexes of a converted file, so that the start does not warn that they are missing."""
    if not name.endswith(DATA_SUFFIX):
        return
    segment = LogSegment.open(one.filesystem, one.directory, offset_of(name), TopicConfig())
    try:
        segment.rebuild_indexes()
        segment.sync_work()()
    finally:
        segment.release()


def _id_of(name: str, holding: Holding) -> TopicId:
    if not holding.ids:
        return names.random_topic_id()
    (topic_id, count), *others = holding.ids.most_common()
    for other, other_count in others:
        logger.warning(
            "%s: %d logs have topic id %s and %d have %s; the latter become strays at the start",
            name,
            count,
            topic_id_text(topic_id),
            other_count,
            topic_id_text(other),
        )
    return topic_id


async def adopt(
    store: Store, config: BrokerConfig, found: Survey, topics: Sequence[TopicImage], others: Mapping[str, bytes] = NOTHING
) -> None:
    """Put the topics and `others`, entries by key, into the store, and write the topics' ids to the logs that have none.

    The commit comes last, so that a command that is cut short is done by the next one.

    Raises OSError; StoreError; AdoptionError when the store is not a new one.
    """
    if await store.get(CLUSTER_ID_KEY) is not None:
        raise AdoptionError(NOT_NEW)
    cluster_id = found.cluster_id or config.cluster_id or topic_id_text(names.random_topic_id())
    puts = {CLUSTER_ID_KEY: cluster_id.encode()}
    puts |= {**others, **{topic_key(topic.name): encode_topic(topic) for topic in topics}}
    if found.largest_producer_id >= 0:
        puts[PRODUCER_IDS_KEY] = b"%d" % (found.largest_producer_id + 1)
    if found.known:
        puts[directories_key(config.node_id)] = encode_directories(found.known)
    epoch = encode_leader_epoch(LeaderEpoch(found.largest_epoch + 1))
    puts |= {LEADER_EPOCH_KEY: epoch, leader_epoch_floor_key(config.node_id): epoch}
    for topic in topics:
        for filesystem, path in found.topics.get(topic.name, NO_HOLDING).unnamed:
            checkpoint.write_partition_metadata(filesystem, path, topic.topic_id, sync=True)
    await _commit_first(store, puts)


async def set_aside(store: Store | None, config: BrokerConfig, directories: Iterable[LogDirectory]) -> list[str]:
    """Rename every log to a stray, and let the store be a new one of the same cluster. Returns the strays' paths.

    Raises OSError; StoreError and AdoptionError before anything was renamed.
    """
    cluster_id = config.cluster_id or topic_id_text(names.random_topic_id())
    known = []
    for directory in directories:
        if directory.properties is not None:
            cluster_id = directory.properties.cluster_id or cluster_id
            if directory.properties.is_complete:
                known.append(KnownDirectory(directory_id=directory.properties.directory_id, path=directory.absolute_path))
    if store is not None and await store.get(CLUSTER_ID_KEY) is not None:
        raise AdoptionError("The metadata store is not new: the logs of its topics are not set aside")
    now_ms, kept = SystemClock().monotonic_ms(), []
    for directory in directories:
        for entry in directory.filesystem.list(directory.path):
            tp = strays.partition_of(entry.name) or strays.partition_of_future(entry.name)
            if tp is not None and entry.is_dir():
                kept.append(strays.set_aside(directory, entry.path, tp, reason="is put aside", now_ms=now_ms))
        directory.sync_names()
    if store is not None:
        puts = {CLUSTER_ID_KEY: cluster_id.encode()}
        if known:
            puts[directories_key(config.node_id)] = encode_directories(known)
        await _commit_first(store, puts)
    return [path for path in kept if path is not None]


async def _commit_first(store: Store, puts: Mapping[str, bytes]) -> None:
    outcome = await store.commit(puts=puts, compare={CLUSTER_ID_KEY: ABSENT})
    if isinstance(outcome, Conflict):
        raise AdoptionError(NOT_NEW)
