"""Runs coordinators: a shard of state for each partition of their topic that this broker leads.

How an operation runs
    The runtime calls it with the shard and the time, and it returns a `CoordinatorResult`. The runtime appends the records, and
    replays them into the shard as soon as they are in the log, so that the next operation sees them. It sends the response when
    the records are durable by the topic's rule: replicated, and on the disk where `flush.messages` demands that. Records that
    could not be appended are not replayed, and the response is the error. A read, and an operation without records, also waits
    until everything that it may have seen is durable; when that takes too long, the response is NOT_COORDINATOR, which every
    client tries again. No client thus learns what could still be lost, and a shard is at any time what its log says: to load it
    again gives the same state.

The life of a shard
    While it is loading, in slices so that the event loop can do other work, requests get COORDINATOR_LOAD_IN_PROGRESS. Then it is
    active. It is unloaded when the partition gets another leader or is removed; requests get NOT_COORDINATOR. A log that cannot
    be read counts as a partition that another broker leads, until the next change of its leader.

Timers belong to the shard, and end with it.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pybroker.log.results import AppendOrigin
from pybroker.model import FIRST_OFFSET, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.purgatory.timer import TimerTask
from pybroker.records.entries import build_entries
from pybroker.replication.fetch_data import PartitionProduceResult, ProduceResults

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, Operation
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.records.compression import CompressionType
    from pybroker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 512 * 1024
"""The approximate size of a batch when records need not be appended together; less than any sensible max.message.bytes."""

_APPENDED: Final = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})
_CLIENT_CODES: Final[Mapping[ErrorCode, ErrorCode]] = MappingProxyType(
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


class Shard(Protocol):
    """The state of a partition, which `replay` changes."""

    def replay(self, record: CoordinatorRecord) -> bool:
        """Change the state as the record says; return False when the record means nothing here."""


S = TypeVar("S", bound=Shard)
Done = Callable[[Any], None]
"""A callback that gets the response, or an ErrorCode when there is none."""

Serialize = Callable[["CoordinatorRecord"], tuple[bytes, bytes | None]]
"""A function that makes key and value of a record as they lie in the log; a tombstone has no value. Raises EncodeError."""


@dataclass(slots=True, frozen=True, kw_only=True)
class RuntimeSettings:
    """The way in which records are written."""

    topic: str
    timeout_ms: int
    required_acks: int
    compression: CompressionType


class _Active(Generic[S]):
    """A shard and what belongs to it."""

    __slots__ = ("is_loaded", "refusals", "replayed_end_offset", "shard", "timers", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, shard: S) -> None:
        self.topic_partition = topic_partition
        self.shard = shard
        self.is_loaded = False
        self.refusals = 0  # the number of failed appends since the last one that succeeded
        self.replayed_end_offset = FIRST_OFFSET  # the shard has replayed its log below this offset
        self.timers: dict[Hashable, _ShardTimer] = {}


class _ShardTimer(TimerTask):
    """A timer that runs an operation on its shard. The same object is used when the timer is started again."""

    __slots__ = ("_active", "_key", "_runtime", "operation")

    def __init__(self, runtime: CoordinatorRuntime[Any], active: _Active[Any], key: Hashable) -> None:
        super().__init__()
        self._runtime, self._active, self._key = runtime, active, key
        self.operation: Operation | None = None

    def expire(self) -> None:
        """Run the operation, because the time is up."""
        if self._active.timers.get(self._key) is self:
            del self._active.timers[self._key]
        if self.operation is not None:
            self._runtime.run(self._active, self.operation, _ignore)


class CoordinatorRuntime(Generic[S]):
    """The runtime of a coordinator. It is used from the event loop only."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        clock: Clock,
        timer: OperationTimer,
        replicas: ReplicaManager,
        new_shard: Callable[[], S],
        serialize: Serialize,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._timer = timer
        self._replicas = replicas
        self._new_shard = new_shard
        self._serialize = serialize
        self._active: dict[int, _Active[S]] = {}

    # Shards

    @property
    def shards(self) -> Iterator[S]:
        """Return the shards that are loaded."""
        return (active.shard for active in self._active.values() if active.is_loaded)

    @property
    def loading_count(self) -> int:
        """Return the number of shards that are not loaded yet."""
        return sum(not active.is_loaded for active in self._active.values())

    def partitions(self) -> list[int]:
        """Return the partitions that have a shard here, loaded or not."""
        return list(self._active)

    def begin_loading(self, partition: int) -> S:
        """Make an empty shard, which serves no request until `end_loading`."""
        active = _Active(TopicPartition(self._settings.topic, partition), self._new_shard())
        self._active[partition] = active
        return active.shard

    def is_loading(self, partition: int, shard: S) -> bool:
        """Return whether `shard` is still the shard of the partition."""
        active = self._active.get(partition)
        return active is not None and active.shard is shard

    def end_loading(self, partition: int, loaded: Operation) -> None:
        """Make the shard active, because it has replayed its log; `loaded` is its first operation."""
        active = self._active[partition]
        active.is_loaded = True
        self._note_end(active)
        self.run(active, loaded, _ignore)

    def unload(self, partition: int) -> S | None:
        """Remove a shard with its timers, and return the shard; the caller responds to its requests that wait."""
        active = self._active.pop(partition, None)
        if active is None:
            return None
        for timer in active.timers.values():
            timer.cancel()
        active.timers.clear()
        return active.shard

    # Operations

    def write(self, partition: int, operation: Operation, done: Done) -> None:
        """Run `operation`. `done` gets its response when its records are durable, or the error: once, or not at all when the
        operation parked the request.
        """
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
        elif not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self.run(active, operation, done)

    def read(self, partition: int, query: Callable[[S], Any], done: Done) -> None:
        """Pass the result of `query` on the shard's state to `done`, once all of that state is durable."""
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        response = query(active.shard)
        self._when_durable(active, lambda code: done(ErrorCode.NOT_COORDINATOR if code else response))

    def _when_durable(self, active: _Active[S], callback: Callable[[ErrorCode], None]) -> None:
        """Call `callback` with NONE as soon as everything that the shard has replayed is durable, or with the error."""
        topic_partition, settings = active.topic_partition, self._settings
        if not settings.required_acks or self._replicas.high_watermark(topic_partition) >= active.replayed_end_offset:
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

    def _note_end(self, active: _Active[S]) -> None:
        """Note that the shard has replayed everything in its log."""
        partition = self._replicas.partition(active.topic_partition)
        if not isinstance(partition, ErrorCode):
            active.replayed_end_offset = partition.log.log_end_offset

    def run(self, active: _Active[S], operation: Operation, done: Done) -> None:
        """Run `operation` on a shard that is loaded, and carry out its result."""
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        self._carry_out(active, result, done)

    def _carry_out(self, active: _Active[S], result: CoordinatorResult, done: Done) -> None:
        if result.records:
            self._append(active, result, done)
        elif result.response is not None:
            self._when_durable(active, lambda code: self._durable(active, result, done, code))
        else:
            self._durable(active, result, done, ErrorCode.NONE)
        for parked in result.parked_responses:
            parked.respond(parked.response)
        for key, delay_ms, operation, is_kept in result.timers:
            if not (is_kept and key in active.timers):
                self._set_timer(active, key, delay_ms, operation)

    def _durable(self, active: _Active[S], result: CoordinatorResult, done: Done, code: ErrorCode) -> None:
        """Respond, and carry out what comes after the records. They are durable, or `code` is the reason why they are not."""
        if code:
            code = result.too_large if code in _TOO_LARGE else _CLIENT_CODES.get(code, code)
        if not code and result.response is not None:
            done(result.response)
        elif code and (
            result.on_durable is None or result.response is not None
        ):  # `on_durable` responds in its own way if there is no response
            done(code)
        if result.on_durable is not None and self._active.get(active.topic_partition.partition) is active:
            self._carry_out(active, result.on_durable(code, self._clock.time_ms()), _ignore)

    def _set_timer(self, active: _Active[S], key: Hashable, delay_ms: int | None, operation: Operation | None) -> None:
        timer = active.timers.get(key)
        if timer is not None:
            timer.cancel()
        if delay_ms is None:
            active.timers.pop(key, None)
            return
        if self._active.get(active.topic_partition.partition) is not active:
            return  # unloaded meanwhile
        if timer is None:
            timer = active.timers[key] = _ShardTimer(self, active, key)
        timer.operation = operation
        self._timer.add(timer, delay_ms)

    # Appending

    def _append(self, active: _Active[S], result: CoordinatorResult, done: Done) -> None:
        batches = self._batches(result.records, is_atomic=result.is_atomic)
        pending_count = len(batches)
        failure = ErrorCode.NONE

        def appended(code: ErrorCode) -> None:
            nonlocal pending_count, failure
            pending_count -= 1
            failure = failure or code
            if not pending_count:
                self._durable(active, result, done, failure)

        for records, batch in batches:
            self._append_batch(active, batch, records if result.is_replayed else (), appended)

    def _batches(self, records: list[CoordinatorRecord], *, is_atomic: bool) -> list[tuple[list[CoordinatorRecord], memoryview]]:
        """Return the records as a single batch, or as several batches of about BATCH_BYTES."""
        now_ms, compression = self._clock.time_ms(), self._settings.compression
        batches: list[tuple[list[CoordinatorRecord], memoryview]] = []
        batch_records: list[CoordinatorRecord] = []
        pairs: list[tuple[bytes, bytes | None]] = []
        size = 0
        for record in records:
            key, value = self._serialize(record)
            batch_records.append(record)
            pairs.append((key, value))
            size += len(key) + len(value or b"")
            if size >= BATCH_BYTES and not is_atomic:
                batches.append((batch_records, memoryview(build_entries(pairs, timestamp_ms=now_ms, compression=compression))))
                batch_records, pairs, size = [], [], 0
        if pairs:
            batches.append((batch_records, memoryview(build_entries(pairs, timestamp_ms=now_ms, compression=compression))))
        return batches

    def _append_batch(
        self,
        active: _Active[S],
        batch: memoryview,
        records: list[CoordinatorRecord] | tuple[()],
        appended: Callable[[ErrorCode], None],
    ) -> None:
        settings, topic_partition = self._settings, active.topic_partition
        outcome: list[ErrorCode] = []
        is_over = False  # the call below has returned

        def complete(results: ProduceResults) -> None:
            code = results[topic_partition].error_code
            if not is_over:
                outcome.append(code)
                return
            appended(code)

        self._replicas.append_records(
            timeout_ms=settings.timeout_ms,
            acks=settings.required_acks,
            entries={topic_partition: batch},
            on_complete=complete,
            origin=AppendOrigin.COORDINATOR,
            is_internal_allowed=True,
        )
        is_over = True
        if not outcome or outcome[0] in _APPENDED:  # in the log, but perhaps not durable yet
            for record in records:
                active.shard.replay(record)
            self._note_end(active)
            active.refusals = 0
        else:
            active.refusals += 1
            if str(active.refusals).strip("0") == "1":  # the 1st, 10th, 100th...: each commit may be one
                logger.warning(
                    "Records cannot be written to %s: %s (%d in a row so far)",
                    *(topic_partition, outcome[0].name, active.refusals),
                )
        if outcome:
            appended(outcome[0])


def _ignore(_outcome: object) -> None:
    """Ignore the outcome of an operation for which no client waits."""
