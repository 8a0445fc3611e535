"""Runs coordinators: a shard of state for each partition of their topic that this broker leads.

How an operation runs
    The runtime calls it with the shard and the time, and it returns a `CoordinatorResult`. The runtime appends the records, and
    replays them into the shard as soon as they are in the log, so that the next operation sees them. It sends the response when
    the records are durable by the topic's rule: replicated, and on the disk where `flush.messages` demands that. Records that
    could not be appended are not replayed, and the response is the error. A read, and an operation without records, also waits
    until everything that it may have seen is durable; when that takes too long, the response is NOT_COORDINATOR, which every
    client tries again. No client thus learns what could still be lost, and a shard is at any time what its log contains: to load
    it again gives the same state.

    Operations of which many come at a time, such as commits of offsets, may share a batch: see `gathering`.

The life of a shard
    While it is loading, in slices so that the event loop can do other work, requests get COORDINATOR_LOAD_IN_PROGRESS. Then it is
    active. It is unloaded when the partition gets another leader or is removed; requests get NOT_COORDINATOR. A log that cannot
    be read counts as a partition that another broker leads, until the next change of its leader.

Timers belong to the shard, and end with it.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic

from pybroker import slicing
from pybroker.coordinator.runtime.active import ActiveShard, S, Shard, ShardTimer, ignore
from pybroker.coordinator.runtime.appender import Appender, RuntimeSettings, Serialize
from pybroker.coordinator.runtime.gathering import TOO_LARGE, Gathering
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.runtime.result import (
        BuiltBatch,
        BulkRecords,
        CoordinatorRecord,
        CoordinatorResult,
        Operation,
        ParkedResponse,
        Producer,
    )
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.replication.replica_manager import ReplicaManager

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

ROUND_RESPONSES: Final = 32
"""The number of responses to waiting requests that are made in one round of the loop, and sent in the next: in about 1 ms."""

Done = Callable[[Any], None]
"""A callback that gets the response, or an ErrorCode when there is none."""


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
        call_soon: Callable[[Callable[[], None]], object] = lambda work: work(),
    ) -> None:
        """Prepare the runtime; `call_soon` runs its argument in the loop's next iteration."""
        self._settings = settings
        self._clock = clock
        self._timer = timer
        self._new_shard = new_shard
        self._appender = Appender(settings, clock, replicas, serialize)
        self._call_soon = call_soon
        self._gathering = Gathering(self._appender, call_soon, self._durable)
        self._active: dict[int, ActiveShard[S]] = {}

    # Shards

    @property
    def topic(self) -> str:
        """Return the topic whose partitions the shards belong to."""
        return self._settings.topic

    @property
    def shards(self) -> Iterator[S]:
        """Return the shards that are loaded."""
        return (active.shard for active in self._active.values() if active.is_loaded)

    @property
    def loading_shards(self) -> Iterator[S]:
        """Return the shards that are not loaded yet."""
        return (active.shard for active in self._active.values() if not active.is_loaded)

    @property
    def loading_count(self) -> int:
        """Return the number of shards that are not loaded yet."""
        return sum(not active.is_loaded for active in self._active.values())

    def partitions(self) -> list[int]:
        """Return the partitions that have a shard here, loaded or not."""
        return list(self._active)

    def begin_loading(self, partition: int) -> S:
        """Make an empty shard, which serves no request until `end_loading`."""
        active = ActiveShard(TopicPartition(self._settings.topic, partition), self._new_shard())
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
        self._appender.note_end(active)
        self.run(active, loaded, ignore)

    def unload(self, partition: int) -> S | None:
        """Remove a shard with its timers, and return the shard; the caller responds to its requests that wait."""
        active = self._active.get(partition)
        if active is None:
            return None
        self._gathering.flush(active)
        del self._active[partition]
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

    def gather(self, partition: int, operation: Operation, done: Done, source: object) -> None:
        """Run `operation` as `write` does; records that may share a batch wait for those of other sources in the same turn.

        `source` is the connection, or whatever else has one request in work at a time. See `gathering`.
        """
        active = self._active.get(partition)
        if active is None or not active.is_loaded:
            self.write(partition, operation, done)
            return
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        gathering = self._gathering
        if result.may_share and result.bulks and gathering.takes(active, source):
            gathering.add(active, result, done)
            self._start_timers(active, result)
        else:
            gathering.flush(active)
            self._carry_out(active, result, done)

    def build(self, bulks: Sequence[BulkRecords], producer: Producer | None = None) -> Generator[None, None, BuiltBatch]:
        """Build the batch of many records, in the transaction of `producer` if there is one, ahead of their operation.

        Yields where the loop may be given back. Raises EncodeError.
        """
        return self._appender.build(bulks, producer)

    def read(self, partition: int, query: Callable[[S], Any], done: Done) -> None:
        """Pass the result of `query` on the shard's state to `done`, once all of that state is durable."""
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._gathering.flush(active)
        response = query(active.shard)
        if self._appender.is_durable(active):
            done(response)
        else:
            self._appender.when_durable(active, lambda code: done(ErrorCode.NOT_COORDINATOR if code else response))

    def complete_transaction(
        self, partition: int, marker: memoryview, replay: Callable[[S], None], done: Callable[[ErrorCode], None]
    ) -> None:
        """Append the marker of a transaction, which is a batch of one record, and replay it with `replay`.

        `done` gets NONE when the marker is durable, or the error.
        """
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
        elif not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._gathering.flush(active)
            self._appender.append_batch(active, marker, 1, lambda: replay(active.shard), done)

    def run(self, active: ActiveShard[S], operation: Operation, done: Done) -> None:
        """Run `operation` on a shard that is loaded, and carry out its result."""
        self._gathering.flush(active)
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        self._carry_out(active, result, done)

    def _carry_out(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        if result.bulks:
            self._append_bulks(active, result, done)
        elif result.records:
            self._append(active, result, done)
        elif result.response is not None:
            self._appender.when_durable(active, lambda code: self._durable(active, result, done, code))
        else:
            self._durable(active, result, done, ErrorCode.NONE)
        self._start_timers(active, result)
        if result.parked_responses:
            self._respond(iter(result.parked_responses))

    def _respond(self, parked_responses: Iterator[ParkedResponse]) -> None:
        """Respond to requests that waited, in slices: a new generation responds to all members of its group."""
        end = perf_counter() + slicing.SLICE_S
        for count, parked in enumerate(parked_responses, start=1):
            parked.respond(parked.response)
            if count == ROUND_RESPONSES or perf_counter() >= end:
                self._call_soon(lambda: self._respond(parked_responses))
                return

    def _start_timers(self, active: ActiveShard[S], result: CoordinatorResult) -> None:
        for key, delay_ms, operation, is_kept in result.timers:
            if not (is_kept and key in active.timers):
                self._set_timer(active, key, delay_ms, operation)

    def _durable(self, active: ActiveShard[S], result: CoordinatorResult, done: Done, code: ErrorCode) -> None:
        """Respond, and carry out what comes after the records. They are durable, or `code` is the reason why they are not."""
        if code:
            code = result.too_large if code in TOO_LARGE else _CLIENT_CODES.get(code, code)
        if not code and result.response is not None:
            done(result.response)
        elif code and (
            result.on_durable is None or result.response is not None
        ):  # `on_durable` responds in its own way if there is no response
            done(code)
        if result.on_durable is not None and self._active.get(active.topic_partition.partition) is active:
            self._gathering.flush(active)
            self._carry_out(active, result.on_durable(code, self._clock.time_ms()), ignore)

    def _set_timer(self, active: ActiveShard[S], key: Hashable, delay_ms: int | None, operation: Operation | None) -> None:
        timer = active.timers.get(key)
        if timer is not None:
            timer.cancel()
        if delay_ms is None:
            active.timers.pop(key, None)
            return
        if self._active.get(active.topic_partition.partition) is not active:
            return  # unloaded meanwhile
        if timer is None:
            timer = active.timers[key] = ShardTimer(self, active, key)
        timer.operation = operation
        self._timer.add(timer, delay_ms)

    # Appending

    def _append(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        batches = self._appender.batches(result.records, is_atomic=result.is_atomic)
        pending_count = len(batches)
        failure = ErrorCode.NONE

        def appended(code: ErrorCode) -> None:
            nonlocal pending_count, failure
            pending_count -= 1
            failure = failure or code
            if not pending_count:
                self._durable(active, result, done, failure)

        for records, ends in batches:
            self._appender.append(active, ends, partial(_replay, active.shard, records if result.is_replayed else ()), appended)

    def _append_bulks(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        def replay() -> None:
            for bulk in result.bulks:
                bulk.replay(active.shard)

        def appended(code: ErrorCode) -> None:
            self._durable(active, result, done, code)

        built = result.built
        if built is not None:
            self._appender.append_batch(active, memoryview(built.data), built.record_count, replay, appended)
            return
        ends = [end for bulk in result.bulks for end in bulk.ends()]
        self._appender.append(active, ends, replay, appended, result.producer)


def _replay(shard: Shard, records: Iterable[CoordinatorRecord]) -> None:
    for record in records:
        shard.replay(record)
