"""Gathers the records of operations that arrive in one turn of the event loop, so that they are appended in one batch.

What is gathered
    The results of operations of which none depends on the records of another, such as commits of offsets to groups that exist
    (`CoordinatorResult.may_share`). The operation runs at once, against the state in which it arrives. Its records are appended
    at the end of the turn, with those of the others, in the order of their arrival. Each operation that is not gathered, each
    read, each timer and each response of a waiting append that changes the state first appends what was gathered before it. So
    every operation sees the state that it would see if each was appended alone, and the log has the records in the same order.

What is not delayed
    A request that comes alone is not gathered. In each turn the first request of a shard is appended at once; requests of other
    connections are gathered from there on. Only if the turn before had requests of several connections is the first gathered,
    too. The end of a turn is a `call_soon`: it comes when all sockets that were ready have been read.

    A request with others behind it on its connection is appended at once, and so is the last of them. If it waited, they would
    wait, too, since a connection has one request in work. Each of them would need a turn of its own and a write of its own.

When the append fails
    All that was gathered gets the error, each in its own way, as if each had been refused. The only error that depends on the
    size is that a batch is too large: then nothing was appended, and each operation is appended alone.

What fails
    Each operation gets exactly one outcome, in the order of their arrival. If a response fails, the error is in the log, and the
    next one gets its own. If the append itself fails, those without an outcome get NOT_COORDINATOR after a shortage, with which
    clients try again, and UNKNOWN_SERVER_ERROR after any other failure, which is a bug.

Source: CoordinatorRuntime.append, with `group.coordinator.append.linger.ms`, in place of which the turn ends.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.runtime.appender import BATCH_BYTES
from pybroker.coordinator.runtime.gathered import Gathered
from pybroker.coordinator.runtime.once import code_of, log_failure
from pybroker.coordinator.runtime.result import ends_of
from pybroker.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.coordinator.runtime.active import ActiveShard
    from pybroker.coordinator.runtime.appender import Appender
    from pybroker.coordinator.runtime.gathered import Source
    from pybroker.coordinator.runtime.result import CoordinatorResult

TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})
"""The errors of an append that fewer records may not get."""


class Gathering:
    """Gathers results for all shards of a runtime. It is used from the event loop only.

    `call_soon` runs its argument in the loop's next iteration. `durable` responds to a request whose records are durable, or
    which has an error.
    """

    __slots__ = ("_appender", "_begun", "_call_soon", "_durable")

    def __init__(
        self,
        appender: Appender,
        call_soon: Callable[[Callable[[], None]], object],
        durable: Callable[[ActiveShard[Any], CoordinatorResult, Callable[[Any], None], ErrorCode], None],
    ) -> None:
        self._appender = appender
        self._call_soon = call_soon
        self._durable = durable
        self._begun: list[ActiveShard[Any]] = []  # the shards that had such a request in this turn

    def takes(self, active: ActiveShard[Any], source: Source) -> bool:
        """Return whether the request of `source`, which has come now, is gathered."""
        turn = active.turn
        is_taken = turn.is_begun or turn.is_shared
        if not turn.is_begun:
            turn.is_begun = True
            self._begun.append(active)
            if len(self._begun) == 1:
                self._call_soon(self._end_turn)
        if is_taken and source is not turn.source and not source.has_next_request:
            return True
        turn.source = source
        return False

    def add(self, active: ActiveShard[Any], result: CoordinatorResult, done: Callable[[Any], None]) -> None:
        """Gather a result. Raises EncodeError."""
        ends, turn = ends_of(result.bulks), active.turn
        size = sum(map(len, ends))
        if turn.size + size > BATCH_BYTES:
            self.flush(active)
        turn.gathered.append(Gathered(result, ends, done))
        turn.size += size
        turn.count += 1

    def flush(self, active: ActiveShard[Any]) -> None:
        """Append what was gathered, if anything."""
        turn = active.turn
        gathered = turn.gathered
        if not gathered:
            return
        turn.gathered, turn.size = [], 0
        self._append(active, gathered)

    def _append(self, active: ActiveShard[Any], gathered: list[Gathered]) -> None:
        """Append results in one batch. Each gets one outcome; a failure fails neither the others nor the request in hand."""

        def replay() -> None:
            for result, _, _ in gathered:
                for bulk in result.bulks:
                    bulk.replay(active.shard)

        def appended(code: ErrorCode) -> None:
            settled = gathered.copy()
            gathered.clear()
            if code in TOO_LARGE and len(settled) > 1:
                for one in settled:
                    self._append(active, [one])
                return
            for result, _, done in settled:
                try:
                    self._durable(active, result, done, code)
                except Exception as error:
                    log_failure(f"The response to a commit to {active.topic_partition}", error)

        try:
            ends = gathered[0].ends if len(gathered) == 1 else list(chain.from_iterable([one.ends for one in gathered]))
            self._appender.append(active, ends, replay, appended)
        except Exception as error:
            log_failure(f"The append of the commits of a turn to {active.topic_partition}", error)
            appended(code_of(error))

    def _end_turn(self) -> None:
        begun, self._begun = self._begun, []
        for active in begun:
            active.turn.end()
            self.flush(active)
