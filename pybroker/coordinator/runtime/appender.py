"""Appends the records of a coordinator to the partitions of its topic, and waits until they are durable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pybroker.log.results import AppendOrigin
from pybroker.model import Offset
from pybroker.powers import is_power_of_ten
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records import kernels
from pybroker.records.entries import build_ends, build_section, record_end
from pybroker.records.errors import RecordTooLargeError
from pybroker.replication.produce_data import REFUSED, PartitionProduceResult, ProduceResults
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.clock import Clock
    from pybroker.coordinator.runtime.active import ActiveShard
    from pybroker.coordinator.runtime.result import CoordinatorRecord, Producer
    from pybroker.model import TopicPartition
    from pybroker.records.compression import CompressionType
    from pybroker.replication.partition import Partition
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 512 * 1024
"""The approximate size of a batch when records need not be appended together; less than any sensible max.message.bytes."""

_APPENDED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})

CLIENT_CODES: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    }
)
"""The code that clients get for the error of an append: they look for the coordinator again, or try again."""

Serialized = tuple[bytes, bytes | None]
"""Key and value of a record as they lie in the log; a tombstone has no value."""

Serialize = Callable[["CoordinatorRecord"], Serialized]
"""A function that makes key and value of a record. Raises EncodeError."""

LeastSize = Callable[["CoordinatorRecord"], int]
"""A function that returns, at once, a size in bytes that a record has at least."""


def no_size(_record: CoordinatorRecord) -> int:
    """Return 0: nothing is known of the size of a record before its bytes are made."""
    return 0


@dataclass(slots=True, frozen=True, kw_only=True)
class RuntimeSettings:
    """The way in which records are written."""

    topic: str
    timeout_ms: int
    required_acks: int
    compression: CompressionType
    least_size: LeastSize = no_size


class Appender:
    """Writes the records of a coordinator. It is used from the event loop only."""

    __slots__ = ("_clock", "_replicas", "_serialize", "_settings")

    def __init__(self, settings: RuntimeSettings, clock: Clock, replicas: ReplicaManager, serialize: Serialize) -> None:
        self._settings = settings
        self._clock = clock
        self._replicas = replicas
        self._serialize = serialize

    def batches(
        self, active: ActiveShard[Any], records: list[CoordinatorRecord], *, is_atomic: bool
    ) -> Pausing[list[tuple[list[CoordinatorRecord], list[bytes]]] | ErrorCode]:
        """Return the records with their ends (`records/entries.py`) for one batch, or for several of at most
        BATCH_BYTES; a larger record has a batch of its own. Or return the error if the log would refuse the one batch: a
        member may send 100 MB, which would be copied several times.

        Raises EncodeError.
        """
        least_size = 0
        batches: list[tuple[list[CoordinatorRecord], list[bytes]]] = []
        batch_records: list[CoordinatorRecord] = []
        ends: list[bytes] = []
        size = 0
        for record in records:
            least_size += self._settings.least_size(record)
            if least_size > BATCH_BYTES and is_atomic and (code := self._refusal(active, least_size)):
                return code
            end = record_end(*self._serialize(record))
            if ends and size + len(end) > BATCH_BYTES and not is_atomic:
                batches.append((batch_records, ends))
                batch_records, ends, size = [], [], 0
            batch_records.append(record)
            ends.append(end)
            size += len(end)
            yield
        if ends:
            batches.append((batch_records, ends))
        return batches

    def _refusal(self, active: ActiveShard[Any], size: int) -> ErrorCode:
        """Return NONE if the log may take a batch whose records have this size at least, else how it would refuse the batch, and
        count that.
        """
        partition = self._replicas.partition(active.topic_partition)
        if isinstance(partition, ErrorCode) or self._settings.compression or size <= partition.log.config.max_message_bytes:
            return ErrorCode.NONE
        error = RecordTooLargeError(f"records have at least {size} bytes, which is more than max.message.bytes")
        code = self._replicas.failed_append(partition, memoryview(b""), error).error_code
        _note_refusal(active, code)
        return code

    def replica(self, topic_partition: TopicPartition) -> Partition | ErrorCode:
        """Return the replica of the partition on this broker, or why there is none."""
        return self._replicas.partition(topic_partition)

    def append(
        self,
        active: ActiveShard[Any],
        ends: Sequence[bytes],
        replay: Callable[[], None],
        appended: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        """Append a batch of records that end with `ends`, in the transaction of `producer` if there is one.

        If the batch is in the log then, `replay` is called. `appended` gets NONE once it is durable, or the error.
        """
        now_ms = self._clock.time_ms()
        batch = build_ends(ends, timestamp_ms=now_ms, compression=self._settings.compression, producer=producer)
        self.append_batch(active, memoryview(batch), len(ends), replay, appended)

    def build_batch(self, ends: Sequence[bytes]) -> Pausing[bytearray]:
        """Build the batch that `append` builds, of any number of records."""
        sections: list[bytes] = []
        count = 0
        for some in portions(ends):
            sections.append(kernels.record_section(some, count))
            count += len(some)
            yield
        payload, now_ms = b"".join(sections), self._clock.time_ms()
        return build_section(payload, count, timestamp_ms=now_ms, compression=self._settings.compression)

    def append_batch(
        self,
        active: ActiveShard[Any],
        batch: memoryview,
        record_count: int,
        replay: Callable[[], None],
        appended: Callable[[ErrorCode], None],
    ) -> None:
        """Append a batch that is made already, as `append` does."""
        settings, replicas, topic_partition = self._settings, self._replicas, active.topic_partition
        if not active.is_led:  # the records follow from a state that may be out of date
            appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        now_ms = self._clock.time_ms()
        result, required_offset = replicas.append_one(
            topic_partition, batch, settings.required_acks, now_ms, None, AppendOrigin.COORDINATOR, True
        )
        code = result.error_code
        if required_offset == REFUSED:
            _note_refusal(active, code)
            appended(code)
            return
        active.refusals = 0
        active.replayed_end_offset = Offset(result.base_offset + record_count)
        replay()
        replicas.wake(topic_partition)
        if required_offset < 0:
            appended(code)
            return
        replicas.await_settled(
            timeout_ms=settings.timeout_ms,
            acks=settings.required_acks,
            results={topic_partition: result},
            unsettled={topic_partition: required_offset},
            on_complete=lambda results: appended(results[topic_partition].error_code),
        )

    def is_durable(self, active: ActiveShard[Any]) -> bool:
        """Return whether everything that the shard has replayed is durable; the shard's leadership must continue."""
        replicas = self._replicas
        return not self._settings.required_acks or replicas.high_watermark(active.topic_partition) >= active.replayed_end_offset

    def when_durable(self, active: ActiveShard[Any], callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback` with NONE as soon as everything that the shard has replayed is durable, or with the error."""
        topic_partition, settings = active.topic_partition, self._settings
        if not active.is_led:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if self.is_durable(active):
            callback(ErrorCode.NONE)
            return

        def complete(results: ProduceResults) -> None:
            code = results[topic_partition].error_code
            callback(ErrorCode.NONE if code in _APPENDED else code)

        self._replicas.await_settled(
            timeout_ms=settings.timeout_ms,
            acks=settings.required_acks,
            results={topic_partition: PartitionProduceResult()},
            unsettled={topic_partition: active.replayed_end_offset},
            on_complete=complete,
        )

    def note_end(self, active: ActiveShard[Any]) -> None:
        """Note that the shard has replayed everything in its log."""
        partition = self._replicas.partition(active.topic_partition)
        if not isinstance(partition, ErrorCode):
            active.replayed_end_offset = partition.log.log_end_offset


def _note_refusal(active: ActiveShard[Any], code: ErrorCode) -> None:
    active.refusals += 1
    if is_power_of_ten(active.refusals):  # each commit may be one
        logger.warning(
            "Records cannot be written to %s: %s (%d in a row so far)", active.topic_partition, code.name, active.refusals
        )
