"""Writes batches to one partition, in order, with several requests in flight at a time.

Batches carry a producer id and sequences without gaps (KIP-98). A broker remembers the last five batches of a producer, so no
more than five requests are in flight. After any trouble, the caller has to find out what has arrived and continue from there,
because a broker that has restarted may have forgotten the producer, and would accept a batch twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.client import WireClient, produced_offset
from pybroker.spark.wire.errors import BrokerError, ConnectionLostError

if TYPE_CHECKING:
    from pybroker.model import Offset

WINDOW: Final = 5


class WriteInterruptedError(PipelineError):
    """Not everything that was sent has arrived, or the broker lacks what it was expected to have; a retry may help."""


@final
class PartitionWriter:
    """A writer to the end of a partition. Every method may raise PipelineError; then the writer cannot be used again.

    The error is a WriteInterruptedError if a retry may help.
    """

    def __init__(self, client: WireClient, topic: str, partition: int) -> None:
        self._client, self._topic, self._partition = client, topic, partition
        self._waiting: deque[Offset] = deque()
        self._leader: Any = None

    def write(self, batch: memoryview, offset: Offset) -> None:
        """Send a batch that must get this offset."""
        while len(self._waiting) >= WINDOW:
            self._take()
        try:
            if self._leader is None:
                self._client.refresh([self._topic])
                self._leader = self._client.leader(self._topic, self._partition)
            self._client.send_batch(self._leader, self._topic, self._partition, batch)
        except (ConnectionLostError, BrokerError) as error:
            raise _interrupted(error) from error
        self._waiting.append(offset)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        while self._waiting:
            self._take()

    def _take(self) -> None:
        name = f"{self._topic}-{self._partition} at {self._client.bootstrap}"
        try:
            offset = produced_offset(self._leader.receive(), f"cannot write to {name}")
        except (ConnectionLostError, BrokerError) as error:
            raise _interrupted(error) from error
        wanted = self._waiting.popleft()
        if offset != wanted:
            raise PipelineError(f"{name} gave a batch the offset {offset}, not {wanted}: another producer writes to it")


def _interrupted(error: ConnectionLostError | BrokerError) -> PipelineError:
    if isinstance(error, BrokerError) and not (error.is_retriable or error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        return error
    return WriteInterruptedError(str(error))
