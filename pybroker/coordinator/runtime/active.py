"""A shard that is here, with what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pybroker.coordinator.runtime.gathering import Turn
from pybroker.coordinator.runtime.holding import Holding
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.model import FIRST_OFFSET
from pybroker.purgatory.timer import TimerTask

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord, Operation
    from pybroker.coordinator.runtime.runtime import CoordinatorRuntime
    from pybroker.model import TopicPartition


class Shard(Protocol):
    """The state of a partition, which `replay` changes."""

    def replay(self, record: CoordinatorRecord) -> bool:
        """Apply the record to the state; return False when the record means nothing here."""


S = TypeVar("S", bound=Shard)


class ActiveShard(Generic[S]):
    """A shard and what belongs to it."""

    __slots__ = ("holding", "is_loaded", "refusals", "replayed_end_offset", "shard", "timers", "topic_partition", "turn")

    def __init__(self, topic_partition: TopicPartition, shard: S, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.topic_partition = topic_partition
        self.shard = shard
        self.holding = Holding(call_soon)
        self.is_loaded = False
        self.refusals = 0  # the number of failed appends since the last one that succeeded
        self.replayed_end_offset = FIRST_OFFSET  # the shard has replayed its log below this offset
        self.timers: dict[Hashable, ShardTimer] = {}
        self.turn = Turn()


class ShardTimer(TimerTask):
    """A timer that runs an operation on its shard. The same object is used when the timer is started again."""

    __slots__ = ("_active", "_key", "_runtime", "operation")

    def __init__(self, runtime: CoordinatorRuntime[Any], active: ActiveShard[Any], key: Hashable) -> None:
        super().__init__()
        self._runtime, self._active, self._key = runtime, active, key
        self.operation: Operation | None = None

    def expire(self) -> None:
        """Run the operation, because the time is up. If the shard is held, and what holds it starts the timer again, that time
        counts.
        """
        timers = self._active.timers
        if timers.get(self._key) is self:
            del timers[self._key]
        operation = self.operation
        if operation is None:
            return
        if self._active.holding.is_held:
            self._runtime.run(
                self._active,
                lambda shard, now_ms: CoordinatorResult() if self._key in timers else operation(shard, now_ms),
                ignore,
                parts=self._runtime.parts_of_timer(self._key),
            )
        else:
            self._runtime.run(self._active, operation, ignore, parts=self._runtime.parts_of_timer(self._key))


def ignore(_outcome: object) -> None:
    """Ignore the outcome of an operation for which no client waits."""
