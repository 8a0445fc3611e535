# cython: annotation_typing=False
"""The way of an append through the leader of a partition, in Python; `_leading_native` is this same text, compiled with the types
of `_leading_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again. `partition.py`
and `replica_manager.py` have the slow path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pybroker.model as model  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.log.results import AppendOrigin
from pybroker.metadata.names import INTERNAL_TOPICS
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.work import LongWorkError
from pybroker.replication.produce_data import REFUSED, SETTLED, PartitionProduceResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.log import Log
    from pybroker.log.results import LogAppendInfo, LogOffsetMetadata
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.model import BrokerId, LeaderEpoch, Offset, TopicPartition
    from pybroker.purgatory.purgatory import Purgatory
    from pybroker.records.validate import Checked
    from pybroker.records.work import Work
    from pybroker.replication.delayed_produce import ProducePurgatory
    from pybroker.replication.fetch_data import SessionKey
    from pybroker.replication.partition import Partition
    from pybroker.replication.session_tracker import SessionTracker

__all__ = ["LeaderAppends", "LeaderState"]

ACKS_ALL = -1
NONE = ErrorCode.NONE
CLIENT = AppendOrigin.CLIENT


class LeaderState:
    """The state of a replica that an append reads and changes. `Partition` has the rest, and sets all that an append does not."""

    __slots__ = (
        "_high_watermark_metadata",
        "_is_alone",
        "high_watermark",
        "is_leader",
        "isr",
        "leader_epoch",
        "log",
        "topic_partition",
    )

    _high_watermark_metadata: LogOffsetMetadata | None
    _is_alone: bool
    high_watermark: Offset
    is_leader: bool
    isr: Sequence[BrokerId]
    leader_epoch: LeaderEpoch
    log: Log
    topic_partition: TopicPartition

    def append_records_to_leader(  # noqa: PLR0917  (a call by position is a third of a call by name)
        self,
        records: memoryview | Checked,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = CLIENT,
        request_version: int | None = None,
        work: Work | None = None,
    ) -> LogAppendInfo:
        """Append records of a client or coordinator. `records` is borrowed, and patched in place if it is writable.

        Raises NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (nothing was written), the errors of the log's
        `append_as_leader`, and LongWorkError if `work` has a bound on the loop's share (nothing was written).
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and not self._is_alone:
            self._check_isr()
        log = self.log
        info = log.append_as_leader(records, self.leader_epoch, now_ms, origin, request_version, work)
        if self._is_alone and log.unsettled_upto <= log.recovery_point:
            self._follow_log_end()
        elif len(self.isr) == 1:  # others in sync do not have these records yet
            self._advance_high_watermark()
        return info

    def _follow_log_end(self) -> None:
        """Move the high watermark to the log end offset: there is no replica and no disk to wait for."""
        log = self.log
        self.high_watermark, self._high_watermark_metadata = log.log_end_offset, None
        producers = log.producers
        if producers.unreplicated:
            producers.on_high_watermark(self.high_watermark)

    # -- what `Partition` does

    def _check_isr(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if fewer replicas are in sync than acks=all needs."""
        raise NotImplementedError

    def _advance_high_watermark(self) -> None:
        """Move the high watermark as far as the in-sync replicas and the disk allow."""
        raise NotImplementedError


class LeaderAppends:
    """The replicas of a broker, as an append needs them. `ReplicaManager` has the rest, and sets all of it."""

    __slots__ = ("_metrics", "_partitions", "fetch_purgatory", "produce_purgatory", "tracked")

    _metrics: BrokerMetrics
    _partitions: dict[TopicPartition, Partition]
    fetch_purgatory: Purgatory
    produce_purgatory: ProducePurgatory
    tracked: dict[TopicPartition, dict[SessionTracker, SessionKey]]

    def append_one(  # noqa: PLR0917  (as above)
        self,
        topic_partition: TopicPartition,
        records: memoryview | Checked,
        acks: int,
        now_ms: int,
        request_version: int | None,
        origin: AppendOrigin = CLIENT,
        is_internal_allowed: bool = False,
        work: Work | None = None,
    ) -> tuple[PartitionProduceResult, Offset]:
        """Append to one partition, with acks from -1 to 1, and count it. `wake` must follow unless the offset is
        REFUSED.

        Returns the result, and the offset to reach (exclusive) before it is valid, or SETTLED or REFUSED. Raises
        LongWorkError as `Partition.append_records_to_leader`; then nothing was counted either.
        """
        topic = topic_partition.topic
        partition = self._partitions.get(topic_partition)
        if partition is None or (topic in INTERNAL_TOPICS and not is_internal_allowed):
            return PartitionProduceResult(self._no_leader(topic_partition, is_internal_allowed)), REFUSED
        try:
            info = partition.append_records_to_leader(records, acks, now_ms, origin, request_version, work)
        except LongWorkError:
            raise
        except Exception as error:
            return self.failed_append(partition, records, error), REFUSED
        first_offset, last_offset, _, log_append_time, log_start_offset, record_count, size, converted, took_ns, _ = info
        metrics = self._metrics
        topics = metrics.topics
        counts = topics.get(topic) or metrics.topic(topic)
        counts.produced(size, record_count)
        if converted:
            self._count_conversion(topic, record_count=converted, took_ns=took_ns)
        code: ErrorCode | None = NONE
        if acks == ACKS_ALL:
            code = partition.check_replicated(last_offset + 1)
        elif acks:
            log = partition.log
            if log.unsettled_upto > log.recovery_point:
                code = partition.check_settled(last_offset + 1)
        result = model.new_tuple(
            PartitionProduceResult, (code or NONE, first_offset, log_append_time, log_start_offset, (), None)
        )
        return result, last_offset + 1 if code is None else SETTLED

    def wake(self, topic_partition: TopicPartition) -> None:
        """Check again the requests that wait for a partition: its log's end, its high watermark or its role may have
        changed.
        """
        produces, fetches = self.produce_purgatory, self.fetch_purgatory
        if produces.watchers and topic_partition in produces.watchers:
            produces.check_and_complete(topic_partition)
        if fetches.watchers and topic_partition in fetches.watchers:
            fetches.check_and_complete(topic_partition)
        if self.tracked and topic_partition in self.tracked:
            self._wake_trackers((topic_partition,))

    # -- what `ReplicaManager` does

    def failed_append(self, partition: Partition, records: memoryview | Checked, error: Exception) -> PartitionProduceResult:
        """Count an append that raised `error`, and return its result."""
        raise NotImplementedError

    def _no_leader(self, topic_partition: TopicPartition, is_internal_allowed: bool) -> ErrorCode:
        """Return why nothing can be appended to a partition that is not here or that only the broker writes."""
        raise NotImplementedError

    def _wake_trackers(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Note changes of partitions that followers fetch in sessions."""
        raise NotImplementedError

    def _count_conversion(self, topic: str, *, record_count: int, took_ns: int) -> None:
        """Count records that were converted to another format."""
        raise NotImplementedError
