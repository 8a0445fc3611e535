"""What a coordinator's operation gives back: data only, which the runtime carries out.

An operation is a plain function of a shard's state and the time. It appends nothing, answers nobody and starts no timer; it says
what is to be done, in a `CoordinatorResult`, and a test can read that.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorResult; etcd-io/raft `Ready`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pybroker.protocol.error_codes import ErrorCode

Respond = Callable[[Any], None]
"""How a parked request is answered: call it once with the response."""

Operation = Callable[[Any, int], "CoordinatorResult"]
"""Called with the shard and the wall time in ms. Changes the shard's soft state at most; see `runtime`."""


class CoordinatorRecord(NamedTuple):
    """A record to append, or one that was read: declared messages. Without a value it is a tombstone.

    `type_id` is the int16 that the key begins with, `value_version` the one of the value.
    """

    type_id: int
    key: Any
    value: Any = None
    value_version: int = -1


class ParkedResponse(NamedTuple):
    """A response to a request that was parked before."""

    respond: Respond
    response: Any


class TimerChange(NamedTuple):
    """Start the timer `key` anew, or stop it when `delay_ms` is None. `operation` runs when its time has come.

    With `is_kept` a timer that is running already goes on as it is.
    """

    key: Hashable
    delay_ms: int | None
    operation: Operation | None = None
    is_kept: bool = False


@dataclass(slots=True)
class CoordinatorResult:
    """What to do.

    Attributes:
        response: to the request; None when it was parked, or when there was none.
        records: appended in one batch, or in several if `is_atomic` is false; the response waits until they are durable.
        is_replayed: False when the records only write down what the state says already.
        too_large: the error when the records do not fit into a batch.
        parked_responses: to parked requests; they do not wait for the records.
        timers: carried out last, in order.
        on_durable: called with NONE when the records are durable, else with what went wrong, and the time; its result is
            carried out like this one.
    """

    response: Any = None
    records: list[CoordinatorRecord] = field(default_factory=list)
    is_replayed: bool = True
    is_atomic: bool = True
    too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    parked_responses: list[ParkedResponse] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    on_durable: Callable[[ErrorCode, int], CoordinatorResult] | None = None
