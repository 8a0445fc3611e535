"""The partitions of this broker, and their three operations: following the cluster's image, appending, fetching.

`own_partitions` follows the image; here are the other two.

How a fetch is limited (KIP-74)
    Partitions are read in the request's order, each up to the smaller of its own limit and the rest of the request's.
    The first partition that has any records yields at least one whole batch, whatever the limits; a later one whose
    first batch does not fit yields nothing. So the records of a response never exceed max(the request's limit, that
    first batch). Versions 0 to 2 have no limit on the request and no such promise: a first batch that does not fit
    its partition's limit is cut there.

Waiting
    A request that cannot be completed at once waits under its partitions, in the purgatory of fetches or in that of
    produces. Everything that moves a log's end, a high watermark or a replica's role calls `wake` for both, which costs
    two lookups if no request waits.

Each request calls back exactly once, often before the call returns.

Source: kafka.server.ReplicaManager; KIP-74, KIP-392, KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.metadata.names import INTERNAL_TOPICS
from pybroker.model import FIRST_OFFSET, BrokerId, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.replication import reading
from pybroker.replication.delayed_fetch import DelayedFetch
from pybroker.replication.delayed_produce import ProducePurgatory
from pybroker.replication.failed_append import failed_append
from pybroker.replication.fetch_data import FetchIsolation, FetchParams, FetchPartition, FetchPartitionData, FetchResults
from pybroker.replication.in_sync import Cluster
from pybroker.replication.leading import LeaderAppends
from pybroker.replication.own_partitions import OwnPartitions
from pybroker.replication.session_tracker import wake_trackers

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.log.manager.manager import LogManager
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.purgatory.purgatory import Purgatory
    from pybroker.purgatory.timer import PurgatoryTimer
    from pybroker.records.validate import Checked
    from pybroker.replication.cold_lookups import ColdLookups
    from pybroker.replication.delayed_produce import DelayedProduce
    from pybroker.replication.partition import Partition
    from pybroker.replication.partition_data import ResponseLimit
    from pybroker.replication.produce_data import PartitionProduceResult, ProduceResults, Unsettled
    from pybroker.sharing.work import Pausing, Work

logger = logging.getLogger(__name__)

_NONE: Final = ErrorCode.NONE
_LOG_END: Final = FetchIsolation.LOG_END


class ReplicaManager(LeaderAppends):
    """The partitions of this broker, and their appends and fetches. Belongs to the loop. The log manager owns the logs."""

    __slots__ = (
        "_log_manager",
        "_own",
        "clock",
        "cluster",
        "consumer_fetch_expirations",
        "follower_fetch_expirations",
        "moves",
    )

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        config: BrokerConfig,
        clock: Clock,
        log_manager: LogManager,
        image: ClusterImage,
        metrics: BrokerMetrics,
        fetch_purgatory: Purgatory,
        timer: PurgatoryTimer,
        later: Callable[[Callable[[], None]], object] = lambda work: work(),
    ) -> None:
        """Prepare the manager; `later` runs a function after other work had its turn.

        `image` is the cluster before the first `apply_image`; `start` makes the partitions of its topics.
        """
        self.clock = clock
        self._log_manager = log_manager
        self._metrics = metrics
        self.cluster = Cluster(clock=clock, wake=self.wake, lag_ms_max=config.replica_lag_time_max_ms)
        self._own = OwnPartitions(
            broker_id=broker_id, config=config, log_manager=log_manager, image=image, wake=self.wake, cluster=self.cluster
        )
        self._partitions = self._own.online
        self._own.moves = self.moves = DirectoryMoves(log_manager, later=later, on_moved=self._own.on_moved)
        self.fetch_purgatory = fetch_purgatory
        self.produce_purgatory = ProducePurgatory(self, timer)
        self.tracked = {}
        self.consumer_fetch_expirations = 0
        self.follower_fetch_expirations = 0

    # The cluster's image; `own_partitions` has the steps

    def start(self, image: ClusterImage | None = None) -> None:
        """Make the partitions that the image gives this broker. A partition whose log cannot be opened is offline; the
        others work.

        `image` replaces the image that the manager was made with.
        """
        self._own.start(self._own.image if image is None else image)

    def prepare(self, new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Make the logs of partitions that a change adds, in slices, before any request can know the change."""
        return self._own.prepare(new, delta)

    def follow(self, _old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Follow a change after `prepare`. Returns the rest: then the logs of removed topics are deleted.

        The rest raises OSError or KafkaError if a log cannot be made. Logs that were made before that are kept until
        the change is taken back.
        """
        return self._own.follow(new, delta)

    def apply_image(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Follow a change at once, with both steps. Raises what the rest of `follow` raises."""
        for _ in self.prepare(new, delta):
            pass
        for _ in self.follow(old, new, delta):
            pass

    def step_down(self) -> None:
        """Lead no partition with several replicas until `lead_again`: this broker's session has ended."""
        self._own.step_down()

    def lead_again(self) -> None:
        """Lead in the leader epochs of later images: no election before this is in force any more."""
        self._own.lead_again()

    def check_isr(self) -> Pausing[None]:
        """Take the replicas out of the ISRs that are too far behind, in slices; call it from time to time."""
        for partition in tuple(self._partitions.values()):
            partition.check_isr()
            yield

    def mark_offline(self, topic_partition: TopicPartition) -> None:
        """Respond with KAFKA_STORAGE_ERROR from now on, also to waiting requests, because the log's directory failed."""
        self._own.mark_offline(topic_partition)

    def follow_failure(self, logs: Sequence[Log]) -> Work[None]:
        """Mark the partitions of `logs` offline in slices, because their directory failed."""
        return self._own.follow_failure(logs)

    def reconfigure(self, config: BrokerConfig) -> Iterator[None]:
        """Apply the broker's settings in force, in slices: every log gets what its topic inherits from them. Raises
        ConfigError.
        """
        return self._own.reconfigure(config)

    @property
    def log_directories(self) -> Sequence[LogDirectory]:
        """This broker's data directories, including those that failed."""
        return self._log_manager.directories

    # Looking up

    def partition(self, topic_partition: TopicPartition) -> Partition | ErrorCode:
        """Return the replica, or an error: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
        found = self._partitions.get(topic_partition)
        return self._absence(topic_partition) if found is None else found

    def _absence(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return why there is no replica."""
        if topic_partition in self._own.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic = self._own.image.topics.get(topic_partition.topic)
        if topic is not None and 0 <= topic_partition.partition < len(topic.partitions):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def partition_or_raise(self, topic_partition: TopicPartition) -> Partition:
        """Return the replica. Raises KafkaError with the code of `partition`."""
        found = self.partition(topic_partition)
        if isinstance(found, ErrorCode):
            raise KafkaError(found)
        return found

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        """All replicas of this broker that are online."""
        return self._partitions

    @property
    def offline_count(self) -> int:
        """The number of replicas whose log directory failed."""
        return len(self._own.offline)

    def high_watermark(self, topic_partition: TopicPartition) -> Offset:
        """Return the offset below which records are replicated as they must be; 0 for a partition that is not here."""
        partition = self._partitions.get(topic_partition)
        return FIRST_OFFSET if partition is None else partition.high_watermark

    def known_high_watermark(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the high watermark for its checkpoint; None for a partition that is not here."""
        partition = self._partitions.get(topic_partition)
        return None if partition is None else partition.high_watermark

    # Producing

    def failed_append(self, partition: Partition, records: memoryview | Checked, error: Exception) -> PartitionProduceResult:
        """Count an append that raised `error`, and return its result."""
        return failed_append(partition, records, error, self._metrics)

    def wake_all(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Do what `wake` does for each partition; for many of them, and many requests, in slices."""
        if self.produce_purgatory.watchers:
            self.produce_purgatory.check_all(topic_partitions)
        if self.fetch_purgatory.watchers:
            self.fetch_purgatory.check_all(topic_partitions)
        if self.tracked:
            self._wake_trackers(topic_partitions)

    def await_settled(
        self,
        *,
        timeout_ms: int,
        acks: int,
        results: ProduceResults,
        unsettled: Unsettled,
        on_complete: Callable[[ProduceResults], object] | None = None,
    ) -> DelayedProduce:
        """Return what waits until all that is unsettled is as `acks` requires, at most `timeout_ms` from now; it may be complete
        already.
        """
        return self.produce_purgatory.wait(acks, results, unsettled, timeout_ms, on_complete)

    def _wake_trackers(self, topic_partitions: Sequence[TopicPartition]) -> None:
        wake_trackers(self.tracked, topic_partitions)

    def _no_leader(self, topic_partition: TopicPartition, is_internal_allowed: bool) -> ErrorCode:
        """Return why nothing can be appended to a partition that is not here or that only the broker writes."""
        code = self._absence(topic_partition)
        if topic_partition.topic in INTERNAL_TOPICS and not is_internal_allowed:
            return code if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ErrorCode.INVALID_TOPIC_EXCEPTION
        return code

    def _count_conversion(self, topic: str, *, record_count: int, took_ns: int) -> None:
        self._metrics.conversion_ns["Produce"] += took_ns
        self._metrics.topic(topic).produce_message_conversions += record_count

    # Fetching: `fetching.py` has the order of the steps

    def read(
        self,
        params: FetchParams,
        partitions: Sequence[FetchPartition],
        limit: ResponseLimit | None = None,
        cold: ColdLookups | None = None,
    ) -> FetchResults:
        """Read whatever is available, one partition after the other, without waiting. `limit` is what is left of the response,
        from which it takes; None if these are all partitions.

        `cold` takes the lookups that would wait for a disk. If there are any afterwards, the results mean nothing: run them in a
        thread, and call this again.
        """
        limit = limit or params.limit()
        isolation, own = params.isolation, self._partitions
        results: FetchResults = []
        for wanted in partitions:
            data, partition = None, own.get(wanted.topic_partition)
            if isolation is not _LOG_END or (partition is not None and params.replica_id in partition.replicas):
                data = reading.read_usual(partition, wanted, isolation, limit)
            if data is None:
                data = self._read_one(params, wanted, limit, cold)
            results.append((wanted, data))
            records = data.records
            if records is not None:
                limit.take(records.size)
        return results

    def _read_one(
        self, params: FetchParams, wanted: FetchPartition, limit: ResponseLimit, cold: ColdLookups | None
    ) -> FetchPartitionData:
        """Read one partition in any case."""
        topic_partition, bytes_max = wanted.topic_partition, limit.bytes_max(wanted)
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return FetchPartitionData(self._absence(topic_partition))
        if not wanted.means(partition.log.topic_id):
            return FetchPartitionData(ErrorCode.INCONSISTENT_TOPIC_ID)
        if bytes_max < 0:
            return FetchPartitionData(ErrorCode.INVALID_FETCH_SIZE)
        if cold is not None and cold.is_cold(partition.log, wanted.fetch_offset):
            return FetchPartitionData()
        try:
            return partition.fetch_records(params, wanted, bytes_max=bytes_max, min_one_batch=limit.min_one_batch, cold=cold)
        except KafkaError as error:
            return FetchPartitionData(error.code)
        except OSError:
            logger.exception("The disk refused a read of %s: KAFKA_STORAGE_ERROR", topic_partition)
            return FetchPartitionData(ErrorCode.KAFKA_STORAGE_ERROR)
        except Exception:
            logger.exception("A read of %s failed, which is a bug: UNKNOWN_SERVER_ERROR", topic_partition)
            return FetchPartitionData(ErrorCode.UNKNOWN_SERVER_ERROR)

    def wait_for_more(self, params: FetchParams, results: FetchResults) -> DelayedFetch:
        """Return what waits until there is more than `results`, or `params.max_wait_ms` are over; it may be complete already."""
        operation = DelayedFetch(self, params, results)
        self.fetch_purgatory.try_complete_else_watch(
            operation, [wanted.topic_partition for wanted, _ in results], params.max_wait_ms
        )
        return operation

    def note_follower(self, params: FetchParams, results: FetchResults) -> None:
        """Note that a follower that fetches from an offset has everything before it."""
        advanced: list[TopicPartition] = []
        for wanted, data in results:
            partition = self._partitions.get(wanted.topic_partition)  # missing if the disk failed during another read
            if partition is None or data.error_code or data.fetch_offset_metadata is None:
                continue
            if partition.update_follower(params.replica_id, data.fetch_offset_metadata, params.replica_epoch):
                advanced.append(wanted.topic_partition)
        self.wake_all(advanced)
