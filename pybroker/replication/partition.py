"""One replica of a partition on this broker: its leader, how far it is replicated, and reading and writing within that.

`in_sync` has the followers of a leader and the in-sync replicas, `following` what a follower does.

High watermark
    Records below it are on every in-sync replica; consumers see nothing beyond. It is the smallest log end offset of the in-sync
    replicas. The fetches of followers show theirs: one from offset n means that the follower has everything before n. With no
    other replica in sync it moves with the log end on every append. It never moves back, and does not move while fewer replicas
    are in sync than `min.insync.replicas`, while the image has eligible leaders, or past records that must become durable first
    (`flush.messages`, in `log.flush`). It is kept with its position in the log, so that a waiting fetch can count the bytes
    before it without reading. A follower follows that of its leader.

Leading
    A replica leads as the image has it. Once `step_down` was called, it leads only in a later leader epoch, and one that was
    elected before this broker went away (`Cluster.is_away`) does not lead, even if a later image has it so.

Errors
    Appends and reads raise KafkaError: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH (the
    request's epoch is older or newer than ours), NOT_ENOUGH_REPLICAS, OFFSET_OUT_OF_RANGE, OFFSET_NOT_AVAILABLE (a
    follower does not have the offset yet), KAFKA_STORAGE_ERROR, and the log's errors for invalid records.

Source: kafka.cluster.Partition; KIP-101, KIP-320, KIP-595.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.read import offset_behind
from pybroker.metadata.isr_changes import IsrChange
from pybroker.metadata.members import NO_BROKER_EPOCH
from pybroker.model import FIRST_OFFSET, NO_LEADER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.replication.fetch_data import (
    FetchIsolation,
    FetchParams,
    FetchPartition,
    FetchPartitionData,
)
from pybroker.replication.in_sync import ALONE, Followers, Isr
from pybroker.replication.leading import LeaderState
from pybroker.replication.partition_data import is_present_epoch

if TYPE_CHECKING:
    from pybroker.log.leader_epoch_cache import EpochEndOffset
    from pybroker.log.log import Log
    from pybroker.log.results import AbortedTransactions, LogOffsetMetadata
    from pybroker.log.segments.fetched_records import FetchedRecords
    from pybroker.log.segments.file_records import FileRecords
    from pybroker.metadata.image import PartitionImage
    from pybroker.model import TopicId, TopicPartition
    from pybroker.replication.cold_lookups import ColdLookups
    from pybroker.replication.in_sync import Cluster

_LOG_END: Final = FetchIsolation.LOG_END
_TXN_COMMITTED: Final = FetchIsolation.TXN_COMMITTED


class Partition(LeaderState):
    """The local replica. Belongs to the loop; owns its log's high watermark, not the log.

    `high_watermark` is the offset after the last record that every in-sync replica has.
    """

    __slots__ = (
        "_image",
        "_stepped_down_at",
        "broker_id",
        "cluster",
        "followers",
        "leader_epoch_start_offset",
        "leader_id",
        "partition_epoch",
        "replicas",
    )

    def __init__(  # noqa: PLR0917  (each is of another kind)
        self,
        topic_partition: TopicPartition,
        log: Log,
        broker_id: BrokerId,
        image: PartitionImage,
        high_watermark: Offset = FIRST_OFFSET,
        cluster: Cluster = ALONE,
    ) -> None:
        """Attach `log`; `high_watermark` is that of the last checkpoint, and only matters while other replicas are in sync."""
        self.topic_partition = topic_partition
        self.log = log
        self.broker_id = broker_id
        self._high_watermark_metadata: LogOffsetMetadata | None = None
        self.high_watermark_metadata = log.offset_metadata(min(max(high_watermark, log.log_start_offset), log.log_end_offset))
        log.producers.on_high_watermark(self.high_watermark)  # a recovered log takes no ended transaction as replicated
        self.leader_epoch_start_offset = NO_OFFSET
        self.cluster = cluster
        self.followers: Followers | None = None
        """Those of a leader with several replicas; None for any other replica."""
        self._stepped_down_at = NO_LEADER_EPOCH
        self._set_state(image)
        self._advance_high_watermark()

    def _set_state(self, image: PartitionImage, *, is_same_leader: bool = False) -> None:
        self._image = image
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        if self.cluster.is_away and len(image.replicas) > 1:
            self._stepped_down_at = image.leader_epoch
        self.is_leader = image.leader == self.broker_id and image.leader_epoch > self._stepped_down_at
        self._is_alone = self.is_leader and len(image.replicas) == len(image.isr) == 1  # no replica to wait for, and min_isr is 1
        if self.is_leader and not is_same_leader:
            self.leader_epoch_start_offset = self.log.log_end_offset
            self.log.lead(image.leader_epoch, self.leader_epoch_start_offset)
        elif not self.is_leader:
            self.log.follow()
        if not self.is_leader or len(image.replicas) == 1:
            self.followers = None
        elif self.followers is None or not is_same_leader:  # fetches from the leader of an older epoch prove nothing
            self.followers = Followers(self.broker_id, image, self.cluster.clock.monotonic_ms())
        else:
            self.followers.apply_image(image)

    def apply_image(self, image: PartitionImage) -> bool:
        """Apply the cluster's decision. Returns whether the leader, its epoch or the high watermark changed."""
        if image == self._image:
            return False
        before = (self.leader_id, self.leader_epoch, self.high_watermark)
        was_leader = self.leader_id == self.broker_id  # `is_leader` may have been taken away before
        self._set_state(image, is_same_leader=was_leader and image.leader_epoch == self.leader_epoch)
        self._advance_high_watermark()
        return before != (self.leader_id, self.leader_epoch, self.high_watermark)

    def step_down(self) -> None:
        """Lead no more in the present leader epoch: other brokers may have elected another leader that this one does not know."""
        if self.is_leader:
            self._stepped_down_at = self.leader_epoch
            self.is_leader = self._is_alone = False
            self.followers = None

    def replace_log(self, log: Log) -> None:
        """Continue with `log`, which has the same records in other files."""
        self.log = log
        self.high_watermark_metadata = log.offset_metadata(self.high_watermark)
        if self.is_leader:
            log.lead(self.leader_epoch, max(self.leader_epoch_start_offset, log.log_start_offset))
        log.producers.on_high_watermark(self.high_watermark)
        self._advance_high_watermark()  # records that waited for the old log's disk are durable in the new log

    @property
    def topic_id(self) -> TopicId:
        """The id that the log was made with."""
        return self.log.topic_id

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position in the log, found when it is first needed: an append alone does not need it."""
        found = self._high_watermark_metadata
        if found is None:
            log, offset = self.log, self.high_watermark
            found = log.end_offset_metadata if offset == log.log_end_offset else log.offset_metadata(offset)
            self._high_watermark_metadata = found
        return found

    @high_watermark_metadata.setter
    def high_watermark_metadata(self, metadata: LogOffsetMetadata) -> None:
        self.high_watermark, self._high_watermark_metadata = metadata.offset, metadata

    @property
    def last_stable_offset(self) -> Offset:
        """The offset before which every transaction has ended: the start of the first open one, at most the high watermark."""
        unstable = self.log.producers.first_unstable_offset
        high_watermark = self.high_watermark
        if unstable is None or unstable >= high_watermark:
            return high_watermark
        return max(unstable, self.log.log_start_offset)

    @property
    def min_isr(self) -> int:
        """The in-sync replicas that acks=all needs: the topic's setting, but never more than there are replicas."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def refusal(self, current_leader_epoch: LeaderEpoch, *, require_leader: bool) -> ErrorCode | None:
        """Return why a request with this leader epoch (-1: unknown) is not for this replica, or None if it is.

        The error is FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if not is_present_epoch(current_leader_epoch, self.leader_epoch):
            is_older = current_leader_epoch < self.leader_epoch
            return ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        if require_leader and not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    def end_metadata(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return where reading ends for `isolation`, with its position in the log."""
        if isolation is _LOG_END:
            return self._settled_end
        high_watermark = self.high_watermark_metadata
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return high_watermark
        stable = self.last_stable_offset
        return high_watermark if stable == high_watermark.offset else self.log.offset_metadata(stable)

    def end_offset(self, isolation: FetchIsolation) -> Offset:
        """Return where reading ends for `isolation`, without looking for its position, which may wait for a disk."""
        if isolation is _LOG_END:
            return self.log.settled_end_offset
        return self.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else self.last_stable_offset

    # Writing

    def _check_isr(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if fewer replicas are in sync than acks=all needs."""
        if len(self.isr) < self.min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr)} replicas in sync and needs {self.min_isr}",
            )

    def check_replicated(self, required_offset: Offset) -> ErrorCode | None:
        """Check whether every in-sync replica has all before `required_offset`: NONE, an error, or None for not yet."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark < required_offset:
            return None
        return ErrorCode.NONE if len(self.isr) >= self.min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def check_settled(self, required_offset: Offset) -> ErrorCode | None:
        """Check whether the leader alone may acknowledge all before `required_offset`: NONE, an error, or None for not yet."""
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.log.settled_end_offset >= required_offset else None

    def on_settled(self) -> bool:
        """Note that unsettled records have become durable, or a proposed ISR is decided. Returns whether that moved the high
        watermark.
        """
        before = self.high_watermark
        self._advance_high_watermark()
        return self.high_watermark != before

    @property
    def _settled_end(self) -> LogOffsetMetadata:
        """Return the end of the records that any client may see, with its position in the log."""
        log = self.log
        if log.unsettled_upto <= log.recovery_point:
            return log.end_offset_metadata
        offset, current = log.settled_end_offset, self.high_watermark_metadata
        return current if offset == current.offset else log.offset_metadata(offset)

    def _advance_high_watermark(self) -> None:
        if self._is_alone and self.log.unsettled_upto <= self.log.recovery_point:
            self._follow_log_end()
            return
        if not self.is_leader or len(self.isr) < self.min_isr or self._image.elr:
            return
        target = self._settled_end
        if self.followers is not None:
            slowest = self.followers.slowest(target, self.cluster)
            if slowest is None:
                return
            target = slowest
        current = self.high_watermark_metadata
        # The same offset may have moved to the front of a new segment.
        if target.offset > current.offset or (target.offset == current.offset and target != current):
            self.high_watermark_metadata = target
            self.log.producers.on_high_watermark(target.offset)

    def update_follower(self, replica_id: BrokerId, end_offset: LogOffsetMetadata, broker_epoch: int = NO_BROKER_EPOCH) -> bool:
        """Note that a follower fetched from `end_offset`. Returns whether that moved the high watermark."""
        followers = self.followers
        if followers is None:
            return False
        before = self.high_watermark
        now_ms = self.cluster.clock.monotonic_ms()
        if followers.fetched(replica_id, end_offset, broker_epoch, self.log.log_end_offset, now_ms):
            self._advance_high_watermark()
            self._propose(
                followers.expanded(
                    replica_id,
                    self.cluster,
                    high_watermark=self.high_watermark,
                    epoch_start_offset=self.leader_epoch_start_offset,
                )
            )
        return self.high_watermark != before

    def check_isr(self) -> None:
        """Take the replicas out of the ISR that are too far behind; call it from time to time. If the ISR is large enough since
        `min.insync.replicas` is smaller, have the cluster forget the eligible leaders, for which the high watermark waits.
        """
        if self.followers is not None:
            now_ms = self.cluster.clock.monotonic_ms()
            shrunk = self.followers.shrunk(self.log.log_end_offset, now_ms=now_ms, lag_ms_max=self.cluster.lag_ms_max)
            has_elr_for_nothing = self._image.elr and len(self.isr) >= self.min_isr and self.followers.proposed is None
            self._propose(Isr(self._image.isr) if shrunk is None and has_elr_for_nothing else shrunk)

    def _propose(self, isr: Isr | None) -> None:
        """Ask the cluster for another ISR. Until the outcome is known, the high watermark counts the replicas of both."""
        followers, alter_isr = self.followers, self.cluster.alter_isr
        if isr is None or followers is None or alter_isr is None:
            return
        change = IsrChange(self.topic_partition, self.topic_id, self.leader_epoch, self.partition_epoch, isr.replicas, isr.added)
        followers.proposed, before = isr, len(self.isr)

        def done(is_done: bool) -> None:
            if is_done and isr.added:
                self.cluster.expands += 1
            elif is_done and len(isr.replicas) < before:
                self.cluster.shrinks += 1
            if self.followers is followers and followers.proposed is isr:  # else a newer image has ended the proposal
                followers.proposed = None
                if self.on_settled():
                    self.cluster.wake(self.topic_partition)

        alter_isr(change, done)

    # Reading

    def fetch_records(
        self,
        params: FetchParams,
        wanted: FetchPartition,
        *,
        bytes_max: int,
        min_one_batch: bool,
        cold: ColdLookups | None = None,
    ) -> FetchPartitionData:
        """Read from `wanted.fetch_offset`, at most `bytes_max` bytes, but with `min_one_batch` never less than one whole
        batch. `cold` takes a lookup of aborted transactions that is too long for the loop; then the result means nothing.

        Without `min_one_batch`, a first batch that does not fit is cut for a request with a hard limit, and otherwise
        left out. Raises the errors that the module lists.
        """
        refusal = self.refusal(wanted.current_leader_epoch, require_leader=params.fetch_only_leader)
        if refusal is not None:
            raise KafkaError(refusal)
        isolation, log = params.isolation, self.log
        end = self.high_watermark_metadata
        if isolation is _LOG_END:
            if params.replica_id not in self.replicas:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {params.replica_id} is not a replica of {self.topic_partition}"
                )
            end = self._settled_end
        end_offset = end.offset if isolation is not _TXN_COMMITTED else self.last_stable_offset
        if wanted.last_fetched_epoch >= 0:
            last = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if last.epoch < 0 or last.end_offset < 0 or wanted.fetch_offset < log.log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if _diverges(last, wanted):
                return self._response(diverging_epoch=last)
        if wanted.fetch_offset == end.offset and end_offset == end.offset:
            return self.nothing_new(end)
        if not self.is_leader and wanted.fetch_offset > log.log_end_offset:  # that of the leader may have it
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        fetched = log.read(wanted.fetch_offset, bytes_max=bytes_max, upper_offset=end_offset, min_one_batch=min_one_batch)
        response = self._response()
        response.fetch_offset_metadata = fetched.offset_metadata
        records = fetched.records
        if not isinstance(records, bytes) and (params.hard_max_bytes_limit or not fetched.is_first_incomplete):
            response.records = records
            if fetched.is_first_incomplete:
                response.cut_batch_size = fetched.first_batch_size
        if isolation is _TXN_COMMITTED:
            response.aborted_transactions = self._aborted(wanted, end_offset, fetched, cold) if response.records else ()
        return response

    def _aborted(
        self, wanted: FetchPartition, end_offset: Offset, fetched: FetchedRecords, cold: ColdLookups | None
    ) -> AbortedTransactions:
        fetch_offset = wanted.fetch_offset
        if cold is None or not self.log.filesystem.is_concurrent:
            return self.log.aborted_transactions(fetch_offset=fetch_offset, upper_offset=end_offset, fetched=fetched)
        upper_offset = min(end_offset, offset_behind(self.log, fetched))
        return cold.aborted_transactions(self.log, fetch_offset=fetch_offset, upper_offset=upper_offset)

    def read_on(self, offset: Offset, bytes_max: int) -> FileRecords | None:
        """Return what follows below the high watermark, at least a batch, for a client to which the batches before have
        no records.
        """
        high_watermark = self.high_watermark
        if not self.log.log_start_offset <= offset < high_watermark:
            return None
        fetched = self.log.read(offset, bytes_max=bytes_max, upper_offset=high_watermark, min_one_batch=True)
        return None if isinstance(fetched.records, bytes) else fetched.records

    def _response(self, diverging_epoch: EpochEndOffset | None = None) -> FetchPartitionData:
        response = FetchPartitionData(
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            log_start_offset=self.log.log_start_offset,
        )
        response.diverging_epoch = diverging_epoch
        return response

    def nothing_new(self, end: LogOffsetMetadata) -> FetchPartitionData:
        """Return the result of a fetch from the very end, which is `end`."""
        response = self._response()
        response.fetch_offset_metadata = end
        return response

    def is_diverging(self, wanted: FetchPartition) -> bool:
        """Return whether the fetcher's log and ours diverge before its fetch offset, or its last epoch is unknown (KIP-595)."""
        return _diverges(self.log.end_offset_for_epoch(wanted.last_fetched_epoch), wanted)


def _diverges(last: EpochEndOffset, wanted: FetchPartition) -> bool:
    """Return whether our log has no such epoch as the fetcher's last, or ends it before the fetch offset."""
    return last.epoch < wanted.last_fetched_epoch or last.end_offset < wanted.fetch_offset
