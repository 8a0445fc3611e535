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
    replayed in slices. Whatever comes for the shard meanwhile waits in the shard's mailbox, and is done in its order: operations
    and reads, timers, and what follows when records are durable.

The life of a shard
    While it is loading, in slices so that the event loop can do other work, requests get COORDINATOR_LOAD_IN_PROGRESS. Then it is
    active. It is unloaded when the partition gets another leader or is removed; requests get NOT_COORDINATOR. A log that cannot
    be read counts as a partition that another broker leads, until the next change of its leader. Timers end with their shard.

    A shard serves one leader epoch of its partition. From the moment at which the epoch rises, or this broker does not lead any
    more, requests get NOT_COORDINATOR and nothing is appended, although the shard may be here for some slices longer. Under a
    higher epoch the shard is loaded again.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, Generic

from pybroker.coordinator.runtime.active import ActiveShard, S, ShardTimer, ignore
from pybroker.coordinator.runtime.appender import CLIENT_CODES, Appender, RuntimeSettings, Serialize
from pybroker.coordinator.runtime.countdown import Countdown
from pybroker.coordinator.runtime.gathering import TOO_LARGE, Gathering
from pybroker.coordinator.runtime.once import Once, log_failure
from pybroker.coordinator.runtime.replaying import append_and_replay, replay_records
from pybroker.coordinator.runtime.result import CoordinatorResult, ends_of
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.sharing.mailbox import Mailbox

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.coordinator.runtime.gathered import Source
    from pybroker.coordinator.runtime.result import Operation, ParkedResponse, TimerChange
    from pybroker.model import LeaderEpoch
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.mailbox import Failed
    from pybroker.sharing.work import Pausing

_FEW: Final = 100
"""The number of timers that are started at once, in 0.2 ms."""

Done = Callable[[Any], None]
"""A callback that gets the response, or an ErrorCode when there is none."""

Rest = Callable[[Done], "Pausing[None]"]
"""The long rest of an operation. The callback gets the response."""


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
        self._responses = Mailbox(call_soon, "responses of a coordinator")
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

    def leader_epochs(self) -> dict[int, LeaderEpoch]:
        """Return the partitions that have a shard here, loaded or not, and the leader epoch that each shard serves."""
        return {partition: active.leader_epoch for partition, active in self._active.items()}

    def begin_loading(self, partition: int) -> S:
        """Make an empty shard, which serves no request until `end_loading`."""
        topic_partition = TopicPartition(self._settings.topic, partition)
        active = ActiveShard(topic_partition, self._new_shard(), self._appender.replica(topic_partition), self._call_soon)
        self._active[partition] = active
        return active.shard

    def is_loading(self, partition: int, shard: S) -> bool:
        """Return whether `shard` is still the shard of the partition."""
        active = self._active.get(partition)
        return active is not None and active.shard is shard

    def end_loading(self, partition: int, loaded: Operation, failed: Callable[[Exception], None] | None = None) -> None:
        """Make the shard active, because it has replayed its log; `loaded` is its first operation.

        If it fails, that is raised, or goes to `failed` if the operation is a long one.
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

    def write(self, partition: int, operation: Operation, done: Done) -> None:
        """Run `operation`. `done` gets its response when its records are durable, or the error: once, or not at all when the
        operation parked the request.
        """
        active = self._loaded(partition, done)
        if active is not None:
            self.run(active, operation, done)

    def write_to_all(self, operation: Operation) -> None:
        """Run `operation`, for which no client waits, on all shards that are loaded, each in a turn of its own.

        Later operations wait for it.
        """
        for active in tuple(self._active.values()):
            if active.is_loaded:
                once = Once(ignore, active.topic_partition)
                active.mailbox.add(
                    partial(self._begin_if_here, active, partial(self._operate, active, operation), once), once.fail
                )

    def gather(self, partition: int, operation: Operation, done: Done, source: Source) -> None:
        """Run `operation` as `write` does; records that may share a batch wait for those of other sources in the same turn.

        `source` is the connection. See `gathering`.
        """
        active = self._active.get(partition)
        if active is None or not active.is_loaded or active.mailbox.is_busy or not active.is_led:
            self.write(partition, operation, done)
            return
        try:
            result = operation(active.shard, self._clock.time_ms())
        except KafkaError as error:
            done(error.code)
            return
        gathering = self._gathering
        if isinstance(result, CoordinatorResult) and result.may_share and result.bulks and gathering.takes(active, source):
            gathering.add(active, result, done)
            self._start_timers(active, result.timers)
            return
        gathering.flush(active)
        if isinstance(result, CoordinatorResult) and _is_short(result) and not active.mailbox.is_busy:
            self._carry_out_at_once(active, result, done)
        else:  # a response may have brought long work
            self.run(active, operation, done)

    def read(self, partition: int, query: Callable[[S], Any], done: Done) -> None:
        """Pass the result of `query` on the shard's state to `done`, once all of that state is durable.

        A query that takes long is a generator, which returns the result.
        """
        active = self._loaded(partition, done)
        if active is not None:
            self._do(active, partial(self._read, active, query), done)

    def _loaded(self, partition: int, done: Done) -> ActiveShard[S] | None:
        """Return the shard, or None after `done` got the reason why no operation runs there."""
        active = self._active.get(partition)
        if active is None or not active.is_led:
            done(ErrorCode.NOT_COORDINATOR)
        elif not active.is_loaded:
            done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            return active
        return None

    def _read(self, active: ActiveShard[S], query: Callable[[S], Any], done: Done) -> Rest | None:
        response = query(active.shard)
        if isinstance(response, GeneratorType):
            return partial(self._read_in_slices, active, response)
        if self._appender.is_durable(active):  # and the shard is led: that was looked at in this turn
            done(response)
        else:
            self._respond_when_durable(active, response, done)
        return None

    def _read_in_slices(self, active: ActiveShard[S], query: Pausing[Any], done: Done) -> Pausing[None]:
        self._respond_when_durable(active, (yield from query), done)

    def _respond_when_durable(self, active: ActiveShard[S], response: Any, done: Done) -> None:
        self._appender.when_durable(active, lambda code: done(ErrorCode.NOT_COORDINATOR if code else response))

    def complete_transaction(
        self, partition: int, marker: memoryview, replay: Callable[[S], Pausing[None]], done: Callable[[ErrorCode], None]
    ) -> None:
        """Append the marker of a transaction, which is a batch of one record, and replay it with `replay`, in slices.

        `done` gets NONE when the marker is durable, or the error.
        """
        active = self._loaded(partition, done)
        if active is not None:
            append = partial(self._appender.append_batch, active, marker, 1)
            self._do(active, lambda _: partial(append_and_replay, append, partial(replay, active.shard)), done)

    def run(self, active: ActiveShard[S], operation: Operation, done: Done = ignore, failed: Failed | None = None) -> None:
        """Run `operation` on a shard that is loaded, and carry out its result, when its turn comes."""
        self._do(active, partial(self._operate, active, operation), done, failed)

    def _do(
        self,
        active: ActiveShard[S],
        begin: Callable[[Done], Rest | None],
        done: Done,
        failed: Failed | None = None,
    ) -> None:
        """Call `begin(done)` once gathered results are appended and the mailbox is empty.

        The mailbox does in slices what it returns.
        """
        mailbox = active.mailbox
        if not mailbox.is_busy:
            self._gathering.flush(active)  # a response may bring long work
        if mailbox.is_busy:
            once = Once(done, active.topic_partition)
            mailbox.run(partial(self._begin_if_here, active, begin, once), failed or once.fail)
        elif (rest := begin(done)) is not None:
            once = Once(done, active.topic_partition)
            mailbox.run(partial(rest, once), failed or once.fail)

    def _begin_if_here(self, active: ActiveShard[S], begin: Callable[[Done], Rest | None], done: Done) -> Pausing[None] | None:
        """Begin, or pass NOT_COORDINATOR to `done` if the shard was unloaded meanwhile, or its leadership has ended."""
        if self._is_here(active) and active.is_led:
            self._gathering.flush(active)
            rest = begin(done)
            return None if rest is None else rest(done)
        done(ErrorCode.NOT_COORDINATOR)
        return None

    def _is_here(self, active: ActiveShard[S]) -> bool:
        return self._active.get(active.topic_partition.partition) is active

    def _operate(self, active: ActiveShard[S], operation: Operation, done: Done) -> Rest | None:
        try:
            result = operation(active.shard, self._clock.time_ms())
            if not isinstance(result, CoordinatorResult):
                result = _begun(result)
        except KafkaError as error:
            done(error.code)
            return None
        if isinstance(result, CoordinatorResult) and _is_short(result):
            self._carry_out_at_once(active, result, done)
            return None
        return partial(self._carry_out, active, result)

    def _carry_out(
        self, active: ActiveShard[S], result: CoordinatorResult | Pausing[CoordinatorResult], done: Done
    ) -> Pausing[None]:
        try:
            if not isinstance(result, CoordinatorResult):
                result = yield from result
        except KafkaError as error:
            done(error.code)
            return
        yield from result.rest
        if result.records:
            yield from self._append_records(active, result, done)
        else:
            self._append_bulks(active, result, done)
        for change in result.timers:
            self._start_timers(active, (change,))
            yield
        self._respond(result.parked_responses)

    def _carry_out_at_once(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        self._append_bulks(active, result, done)
        self._start_timers(active, result.timers)
        self._respond(result.parked_responses)

    def _append_bulks(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> None:
        if result.bulks:
            ends = ends_of(result.bulks)

            def replay() -> None:
                for bulk in result.bulks:
                    bulk.replay(active.shard)

            self._appender.append(active, ends, replay, partial(self._durable, active, result, done), result.producer)
        elif result.response is not None:  # it waits for what the operation may have read
            self._appender.when_durable(active, partial(self._durable, active, result, done))
        else:
            self._durable(active, result, done, ErrorCode.NONE)

    def _append_records(self, active: ActiveShard[S], result: CoordinatorResult, done: Done) -> Pausing[None]:
        batches = yield from self._appender.batches(active, result.records, is_atomic=result.is_atomic)
        if isinstance(batches, ErrorCode):
            self._durable(active, result, done, batches)
            return
        durable = Countdown(len(batches), partial(self._durable, active, result, done))
        for records, ends in batches:
            batch = yield from self._appender.build_batch(ends)
            if self._is_here(active):
                append = partial(self._appender.append_batch, active, memoryview(batch), len(ends))
                replay = partial(replay_records, active.shard, records if result.is_replayed else ())
                yield from append_and_replay(append, replay, durable.note)
            else:  # unloaded meanwhile
                durable.note(ErrorCode.NOT_COORDINATOR)

    def _respond(self, parked_responses: list[ParkedResponse]) -> None:
        """Respond to requests that waited, in slices: a new generation responds to all members of its group."""
        if parked_responses:
            self._responses.run(partial(_responded, parked_responses), partial(log_failure, "A response of a coordinator"))

    def _start_timers(self, active: ActiveShard[S], changes: Iterable[TimerChange]) -> None:
        for change in changes:
            if not (change.is_kept and change.key in active.timers):
                self._set_timer(active, change)

    def _set_timer(self, active: ActiveShard[S], change: TimerChange) -> None:
        key, delay_ms, operation, _, is_look = change
        timer = active.timers.get(key)
        if timer is not None:
            timer.cancel()
        if delay_ms is None:
            active.timers.pop(key, None)
            return
        if not self._is_here(active):
            return  # unloaded meanwhile
        if timer is None:
            timer = active.timers[key] = ShardTimer(self.run, active, key)
        timer.operation, timer.is_look = operation, is_look
        self._timer.add(timer, delay_ms)

    def _durable(self, active: ActiveShard[S], result: CoordinatorResult, done: Done, code: ErrorCode) -> None:
        """Respond, and carry out what comes after the records. They are durable, or `code` is the reason why they are not."""
        if code:
            code = result.too_large if code in TOO_LARGE else CLIENT_CODES.get(code, code)
        on_durable = result.on_durable
        if not code and result.response is not None:
            done(result.response)
        elif code and (on_durable is None or result.response is not None):  # else `on_durable` responds in its own way
            done(code)
        if on_durable is not None and self._is_here(active):
            self.run(active, partial(follow, on_durable, code))


def _begun(operation: Pausing[CoordinatorResult]) -> CoordinatorResult | Pausing[CoordinatorResult]:
    """Run `operation` to its first yield; return its result if it has none, as in most cases, else the rest of it."""
    try:
        next(operation)
    except StopIteration as stopped:
        result: CoordinatorResult = stopped.value
        return result
    return operation


def follow(
    on_durable: Callable[[ErrorCode, int], CoordinatorResult | Pausing[CoordinatorResult]],
    code: ErrorCode,
    _shard: object,
    now_ms: int,
) -> CoordinatorResult | Pausing[CoordinatorResult]:
    """Return what follows when records are durable or refused, as an operation."""
    return on_durable(code, now_ms)


def _is_short(result: CoordinatorResult) -> bool:
    return not (result.records or result.rest or len(result.timers) > _FEW)


def _responded(parked_responses: list[ParkedResponse]) -> Pausing[None]:
    for respond, response in parked_responses:
        respond(response)
        yield
