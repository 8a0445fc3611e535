"""The result of a coordinator's operation: data only, which the runtime carries out.

An operation is a plain function of a shard's state and the time. It appends nothing, sends no response and starts no timer. It
returns what must be done, in a `CoordinatorResult`, and a test can read that.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorResult; etcd-io/raft `Ready`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pybroker.model import ProducerEpoch, ProducerId
    from pybroker.sharing.work import Pausing

Respond = Callable[[Any], None]
"""The way to respond to a parked request: call it once, with the response."""

Operation = Callable[[Any, int], "CoordinatorResult | Pausing[CoordinatorResult]"]
"""A function of the shard and the wall time in ms. It may change the shard's soft state, but nothing else; see `runtime`. If it
takes long, it is a generator, and no other operation on the shard runs meanwhile.
"""


class Producer(NamedTuple):
    """A producer id with its epoch."""

    producer_id: ProducerId
    epoch: ProducerEpoch


class CoordinatorRecord(NamedTuple):
    """A record to append, or a record that was read; key and value are declared messages. Without a value it is a tombstone.

    The key begins with `type_id`, the value with `value_version`; both are int16.
    """

    type_id: int
    key: Any
    value: Any = None
    value_version: int = -1


class BulkRecords(Protocol):
    """Several records that are written, and replayed, at once. `records/entries.py` has the form of their bytes."""

    def ends(self) -> Sequence[bytes]:
        """Return the bytes of each record that follow its offset. Raises EncodeError."""

    def replay(self, shard: Any) -> None:
        """Apply the records to the state of the shard."""


def ends_of(bulks: Sequence[BulkRecords]) -> Sequence[bytes]:
    """Return the ends of all records of `bulks`, as `BulkRecords.ends` does. Raises EncodeError."""
    return bulks[0].ends() if len(bulks) == 1 else list(chain.from_iterable([bulk.ends() for bulk in bulks]))


class ParkedResponse(NamedTuple):
    """The response to a request that was parked before."""

    respond: Respond
    response: Any


class TimerChange(NamedTuple):
    """The order to start the timer `key` again, or to stop it when `delay_ms` is None. `operation` runs when the time is up.

    With `is_kept` a timer that is running already continues as it is. With `is_look` the operation looks at intervals at what is
    there, and no moment matters to it.
    """

    key: Hashable
    delay_ms: int | None
    operation: Operation | None = None
    is_kept: bool = False
    is_look: bool = False


@dataclass(slots=True)
class CoordinatorResult:
    """The orders of an operation to the runtime.

    Attributes:
        response: the response to the request; None when the request was parked, or when there is no request.
        records: the records to append, in one batch, or in several if `is_atomic` is false; the response waits until they are
            durable.
        bulks: the same as `records`, for records of which a request has many; always in one batch, and without `records`.
        may_share: whether the batch may have the bulks of other such results, because none of their operations depends on the
            records of another.
        producer: the one to whose transaction the bulks belong; the log refuses them where its epoch is old.
        is_replayed: False when the records only write down what is in the state already.
        too_large: the error when the records do not fit into a batch.
        parked_responses: the responses to parked requests; they do not wait for the records.
        timers: the timers to start and stop; they are carried out last, in order.
        rest: what is left of the operation, in slices; it adds to this result, before anything of the result is carried out.
        on_durable: called with NONE when the records are durable, otherwise with the error, and with the time; its result is
            carried out like this one.
    """

    response: Any = None
    records: list[CoordinatorRecord] = field(default_factory=list)
    bulks: Sequence[BulkRecords] = ()
    may_share: bool = False
    producer: Producer | None = None
    is_replayed: bool = True
    is_atomic: bool = True
    too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    parked_responses: list[ParkedResponse] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    rest: Iterable[None] = ()
    on_durable: Callable[[ErrorCode, int], CoordinatorResult | Pausing[CoordinatorResult]] | None = None
