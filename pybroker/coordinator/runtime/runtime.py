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

Long operations
    An operation may be a generator that yields wherever others may get their turn, and its records are written to bytes and
    replayed in slices. An operation that takes longer than a slice holds the shard, and operations on other parts of the shard
    pass: see `holding`. An operation on `parts` reads and changes nothing of the shard but these; without parts, anything.

The life of a shard
    While it is loading, in slices so that the event loop can do other work, requests get COORDINATOR_LOAD_IN_PROGRESS. Then it is
    active. It is unloaded when the partition gets another leader or is removed; requests get NOT_COORDINATOR. A log that cannot
    be read counts as a partition that another broker leads, until the next change of its leader. Timers end with their shard.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic

from pybroker.coordinator.runtime.active import ActiveShard, S, ShardTimer, ignore
from pybroker.coordinator.runtime.appender import CLIENT_CODES, SECTION_RECORDS, Appender, RuntimeSettings, Serialize
from pybroker.coordinator.runtime.countdown import Countdown
from pybroker.coordinator.runtime.gathering import TOO_LARGE, Gathering
from pybroker.coordinator.runtime.once import Once
from pybroker.coordinator.runtime.replaying import Append, append_and_replay, replay_records
from pybroker.coordinator.runtime.result import CoordinatorResult, ends_of
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing import work as sharing

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.runtime.gathering import Source
    from pybroker.coordinator.runtime.holding import Failed, Parts
    from pybroker.coordinator.runtime.result import (
        LongOperation,
        Operation,
        ParkedResponse,
        TimerChange,
    )
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.replication.replica_manager import ReplicaManager

ROUND_RESPONSES: Final = 32
"""The number of responses to waiting requests that are made in one round of the loop, and sent in the next: in about 1 ms."""

STEP_TIMERS: Final = 100
"""The number of timers that are started between two yields."""

STEPS_OF_ALL: Final = 10
"""After this many steps of an operation on all shards, the others do it in a later turn."""

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
        parts_of_timer: Callable[[Hashable], Parts | None] = lambda _key: None,
    ) -> None:
        """Prepare the runtime; `call_soon` runs its argument in the loop's next iteration. `parts_of_timer` returns the parts
        that the operation of a timer with this key is about, or None.
        """
        self.parts_of_timer = parts_of_timer
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
        return (active.shard for active in tuple(self._active.values()) if active.is_loaded)

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
        active = ActiveShard(TopicPartition(self._settings.topic, partition), self._new_shard(), self._call_soon)
        self._active[partition] = active
        return active.shard

    def is_loading(self, partition: int, shard: S) -> bool:
        """Return whether `shard` is still the shard of the partition."""
        active = self._active.get(partition)
        return active is not None and active.shard is shard

    def end_loading(self, partition: int, loaded: Operation, failed: Callable[[Exception], None] | None = None) -> None:
        """Make the shard active, because it has replayed its log; `loaded` is its first operation.

        If it fails, that is raised, or goes to `failed` if the operation took longer than a slice.
        """
        active = self._active[partition]
        active.is_loaded = True
        self._appender.note_end(active)
        self.run(active, loaded, ignore, failed)

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

    def write(self, partition: int, operation: Operation, done: Done, *, parts: Parts | None = None) -> None:
        """Run `operation`. `done` gets its response when its records are durable, or the error: once, or not at all when the
        operation parked the request.
        """
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
        elif not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self.run(active, operation, done, parts=parts)

    def write_to_all(self, operation: Callable[[S, int], LongOperation]) -> None:
        """Run `operation`, for which no client waits, on all shards that are loaded. Later operations wait for it."""
        steps_count = 0

        def counted(shard: S, now_ms: int) -> LongOperation:
            nonlocal steps_count
            work = operation(shard, now_ms)
            try:
                while True:
                    next(work)
                    steps_count += 1
                    yield
            except StopIteration as stopped:
                result: CoordinatorResult = stopped.value
                return result

        for partition, active in tuple(self._active.items()):
            if steps_count >= STEPS_OF_ALL:
                active.holding.pause()
            self.write(partition, counted, ignore)

    def gather(self, partition: int, operation: Operation, done: Done, source: Source, *, parts: Parts | None = None) -> None:
        """Run `operation` as `write` does; records that may share a batch wait for those of other sources in the same turn.

        `source` is the connection. See `gathering`.
        """
        active = self._active.get(partition)
        if active is None or not active.is_loaded:
            self.write(partition, operation, done)
            return
        holding = active.holding
        if holding.is_held and not holding.may_pass(parts):
            self.run(active, operation, done, parts=parts)
            return
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        gathering = self._gathering
        if not isinstance(result, Generator) and result.may_share and result.bulks and gathering.takes(active, source):
            gathering.add(active, result, done)
            self._start_timers(active, result.timers)
        elif self._is_free(active, parts):
            self._carry_out(active, result, done, parts=parts)
        else:
            self.run(active, operation, done, parts=parts)

    def read(self, partition: int, query: Callable[[S], Any], done: Done, *, parts: Parts | None = None) -> None:
        """Pass the result of `query` on the shard's state to `done`, once all of that state is durable.

        A query that takes long is a generator, which returns the result.
        """
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
            return
        if not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self._when_free(active, partial(self._read, active, query, parts), done, parts=parts)

    def _read(self, active: ActiveShard[S], query: Callable[[S], Any], parts: Parts | None, done: Done) -> None:
        response = query(active.shard)
        if isinstance(response, Generator):
            once = Once(done, active.topic_partition)
            active.holding.run(self._read_in_steps(active, response, once), once.fail, parts)
        else:
            self._respond_when_durable(active, response, done)

    def _read_in_steps(
        self, active: ActiveShard[S], query: Generator[None, None, Any], done: Done
    ) -> Generator[None, None, None]:
        self._respond_when_durable(active, (yield from query), done)

    def _respond_when_durable(self, active: ActiveShard[S], response: Any, done: Done) -> None:
        if self._appender.is_durable(active):
            done(response)
        else:
            self._appender.when_durable(active, lambda code: done(ErrorCode.NOT_COORDINATOR if code else response))

    def complete_transaction(
        self,
        partition: int,
        marker: memoryview,
        replay: Callable[[S], Iterator[None]],
        done: Callable[[ErrorCode], None],
        parts_of: Callable[[S], Parts | None] = lambda _shard: None,
    ) -> None:
        """Append the marker of a transaction, which is a batch of one record, and replay it with the steps of `replay`.

        `done` gets NONE when the marker is durable, or the error. `parts_of` returns the parts that the replay changes.
        """
        active = self._active.get(partition)
        if active is None:
            done(ErrorCode.NOT_COORDINATOR)
        elif not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            append = partial(self._appender.append_batch, active, marker, 1)

            def run(done: Done) -> None:
                once = Once(done, active.topic_partition)
                work = append_and_replay(append, lambda: replay(active.shard), once)
                active.holding.run(work, once.fail, parts_of(active.shard))  # as they are now: what came before has its effect

            self._when_free(active, run, done, parts=parts_of(active.shard))

    def run(
        self,
        active: ActiveShard[S],
        operation: Operation,
        done: Done,
        failed: Failed | None = None,
        *,
        parts: Parts | None = None,
    ) -> None:
        """Run `operation` on a shard that is loaded, and carry out its result; later, if these parts of the shard are held."""
        self._when_free(active, partial(self._run, active, operation, failed, parts), done, failed, parts=parts)

    def _run(self, active: ActiveShard[S], operation: Operation, failed: Failed | None, parts: Parts | None, done: Done) -> None:
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        self._carry_out(active, result, done, failed, parts)

    def _when_free(
        self,
        active: ActiveShard[S],
        work: Callable[[Done], None],
        done: Done,
        failed: Failed | None = None,
        *,
        parts: Parts | None,
    ) -> None:
        """Pass `done` to `work` when the parts are free, or NOT_COORDINATOR to `done` if the shard is unloaded by then."""
        if self._is_free(active, parts):
            work(done)
        else:
            once = Once(done, active.topic_partition)
            active.holding.wait(partial(self._work_if_here, active, work, once), failed or once.fail, parts)

    def _work_if_here(self, active: ActiveShard[S], work: Callable[[Done], None], done: Done) -> None:
        if self._is_here(active):
            self._gathering.flush(active)
            work(done)
        else:
            done(ErrorCode.NOT_COORDINATOR)

    def _is_free(self, active: ActiveShard[S], parts: Parts | None) -> bool:
        """Append what was gathered if `parts` are free, and return whether they still are: a response may bring long work."""
        holding = active.holding
        if not holding.is_held or holding.may_pass(parts):
            self._gathering.flush(active)
        return not holding.is_held or holding.may_pass(parts)

    def _is_here(self, active: ActiveShard[S]) -> bool:
        return self._active.get(active.topic_partition.partition) is active

    def _carry_out(
        self,
        active: ActiveShard[S],
        result: CoordinatorResult | LongOperation,
        done: Done,
        failed: Failed | None = None,
        parts: Parts | None = None,
    ) -> None:
        if isinstance(result, CoordinatorResult):
            result.parts = parts
            if _is_one_step(result):
                self._carry_out_in_one_step(active, result, done)
                return
        once = Once(done, active.topic_partition)
        if isinstance(result, CoordinatorResult):
            work = self._carry_out_in_steps(active, result, once)
        else:
            work = self._operate(active, result, parts, once)
        active.holding.run(work, failed or once.fail, parts)

    def _operate(
        self, active: ActiveShard[S], operation: LongOperation, parts: Parts | None, done: Done
    ) -> Generator[None, None, None]:
        try:
            result = yield from operation
        except KafkaError as error:
            done(error.code)
            return
        result.parts = parts
        yield from self._carry_out_in_steps(active, result, done)

    def _carry_out_in_steps(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> Generator[None, None, None]:
        yield from result.rest
        if result.records:
            yield from self._append_records(active, result, done)
        else:
            self._append_bulks(active, result, done)
        for start in range(0, len(result.timers), STEP_TIMERS):
            if start:
                yield
            self._start_timers(active, result.timers[start : start + STEP_TIMERS])
        self._respond(iter(result.parked_responses))

    def _carry_out_in_one_step(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        self._append_bulks(active, result, done)
        self._start_timers(active, result.timers)
        if result.parked_responses:
            self._respond(iter(result.parked_responses))

    def _append_bulks(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        if result.bulks:
            ends = ends_of(result.bulks)

            def replay() -> None:
                for bulk in result.bulks:
                    bulk.replay(active.shard)

            self._appender.append(active, ends, replay, partial(self._durable, active, result, done), result.producer)
        else:
            self._when_durable(active, result, done)

    def _when_durable(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        """Respond to an operation without records as soon as everything that it may have read is durable."""
        if result.response is not None:
            self._appender.when_durable(active, partial(self._durable, active, result, done))
        else:
            self._durable(active, result, done, ErrorCode.NONE)

    def _respond(self, parked_responses: Iterator[ParkedResponse]) -> None:
        """Respond to requests that waited, in slices: a new generation responds to all members of its group."""
        end = perf_counter() + sharing.SLICE_S
        for count, parked in enumerate(parked_responses, start=1):
            parked.respond(parked.response)
            if count == ROUND_RESPONSES or perf_counter() >= end:
                self._call_soon(lambda: self._respond(parked_responses))
                return

    def _start_timers(self, active: ActiveShard[S], changes: Iterable[TimerChange]) -> None:
        for key, delay_ms, operation, is_kept in changes:
            if not (is_kept and key in active.timers):
                self._set_timer(active, key, delay_ms, operation)

    def _durable(self, active: ActiveShard[S], result: CoordinatorResult, done: Done, code: ErrorCode) -> None:
        """Respond, and carry out what comes after the records. They are durable, or `code` is the reason why they are not."""
        if code:
            code = result.too_large if code in TOO_LARGE else CLIENT_CODES.get(code, code)
        if not code and result.response is not None:
            done(result.response)
        elif code and (result.on_durable is None or result.response is not None):  # else `on_durable` responds in its own way
            done(code)
        if result.on_durable is not None:
            self._continue(active, result, code)

    def _continue(self, active: ActiveShard[S], result: CoordinatorResult, code: ErrorCode) -> None:
        """Carry out what comes after records, unless the shard is unloaded by then."""
        if self._is_here(active):
            self._when_free(active, partial(self._follow, active, result, code), ignore, parts=result.parts)

    def _follow(self, active: ActiveShard[S], result: CoordinatorResult, code: ErrorCode, done: Done) -> None:
        on_durable = result.on_durable
        assert on_durable is not None
        self._run(active, lambda _shard, now_ms: on_durable(code, now_ms), None, result.parts, done)

    def _set_timer(self, active: ActiveShard[S], key: Hashable, delay_ms: int | None, operation: Operation | None) -> None:
        timer = active.timers.get(key)
        if timer is not None:
            timer.cancel()
        if delay_ms is None:
            active.timers.pop(key, None)
            return
        if not self._is_here(active):
            return  # unloaded meanwhile
        if timer is None:
            timer = active.timers[key] = ShardTimer(self, active, key)
        timer.operation = operation
        self._timer.add(timer, delay_ms)

    # Appending

    def _append_records(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> Generator[None, None, None]:
        batches = yield from self._appender.batches(active, result.records, is_atomic=result.is_atomic)
        if isinstance(batches, ErrorCode):
            self._durable(active, result, done, batches)
            return
        durable = Countdown(len(batches), partial(self._durable, active, result, done))
        for records, ends in batches:
            append: Append = partial(self._appender.append, active, ends)
            if len(ends) > SECTION_RECORDS:
                built = yield from self._appender.build_in_steps(ends)
                append = partial(self._appender.append_batch, active, memoryview(built), len(ends))
            if self._is_here(active):
                replay = partial(replay_records, active.shard, *((records, ends) if result.is_replayed else ((), ())))
                yield from append_and_replay(append, replay, durable.note)
            else:  # unloaded meanwhile
                durable.note(ErrorCode.NOT_COORDINATOR)


def _is_one_step(result: CoordinatorResult) -> bool:
    return not (result.records or result.rest or len(result.timers) > STEP_TIMERS)
