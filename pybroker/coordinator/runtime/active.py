"""A shard that is here, with what belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pybroker.coordinator.runtime.gathered import Turn
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.model import FIRST_OFFSET, LeaderEpoch
from pybroker.protocol.error_codes import ErrorCode
from pybroker.purgatory.timer import TimerTask
from pybroker.sharing.mailbox import Mailbox

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord, Operation
    from pybroker.model import TopicPartition
    from pybroker.replication.partition import Partition


class Shard(Protocol):
    """The state of a partition, which `replay` changes."""

    def replay(self, record: CoordinatorRecord) -> bool:
        """Apply the record to the state; return False when the record means nothing here."""


S = TypeVar("S", bound=Shard)


class ActiveShard(Generic[S]):
    """A shard and what belongs to it. Operations on it that take long are in its mailbox, and so is what comes meanwhile.

    The shard belongs to one leadership of its partition: `leader_epoch` is the epoch of `replica` when the shard was made.
    """

    __slots__ = (
        "is_loaded",
        "leader_epoch",
        "mailbox",
        "refusals",
        "replayed_end_offset",
        "replica",
        "shard",
        "timers",
        "topic_partition",
        "turn",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        shard: S,
        replica: Partition | ErrorCode,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.topic_partition = topic_partition
        self.replica = None if isinstance(replica, ErrorCode) else replica
        self.leader_epoch = LeaderEpoch(-1) if self.replica is None else self.replica.leader_epoch
        self.shard = shard
        self.mailbox = Mailbox(call_soon, "long work of a coordinator")
        self.is_loaded = False
        self.refusals = 0  # the number of failed appends since the last one that succeeded
        self.replayed_end_offset = FIRST_OFFSET  # the shard has replayed its log below this offset
        self.timers: dict[Hashable, ShardTimer] = {}
        self.turn = Turn()

    @property
    def is_led(self) -> bool:
        """Whether the leadership to which the shard belongs continues. After it, other brokers may know more than the shard."""
        replica = self.replica
        return replica is not None and replica.is_leader and replica.leader_epoch == self.leader_epoch


class ShardTimer(TimerTask):
    """A timer that runs an operation on its shard. The same object is used when the timer is started again."""

    __slots__ = ("_active", "_key", "_run", "is_look", "operation")

    def __init__(self, run: Callable[[ActiveShard[Any], Operation], None], active: ActiveShard[Any], key: Hashable) -> None:
        super().__init__()
        self._run, self._active, self._key = run, active, key
        self.operation: Operation | None = None
        self.is_look = False

    def expire(self) -> None:
        """Run the operation, because the time is up. If the timer is started again before its turn comes, that time counts."""
        timers, operation = self._active.timers, self.operation
        if timers.get(self._key) is self:
            del timers[self._key]
        if operation is not None:
            self._run(
                self._active,
                lambda shard, now_ms: CoordinatorResult() if self._key in timers else operation(shard, now_ms),
            )


def ignore(_outcome: object) -> None:
    """Ignore the outcome of an operation for which no client waits."""
