"""Batches to one partition, in order and each once, several requests on their way at a time.

Kafka's idempotence (KIP-98): batches carry a producer id and sequences that go on without gaps, and a broker remembers the last
five batches of a producer. So no more than five are on their way, and after any trouble all that have no answer are sent again,
in order: a broker answers those that it has with the offsets that they got.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.wire.client import WireClient, gave_up, pauses, produced_offset
from pybroker.pipeline.wire.errors import BrokerError, ConnectionLostError

WINDOW: Final = 5


@final
class PartitionWriter:
    """Writes to the end of a partition. Every method may raise PipelineError; then the writer is of no use any more."""

    def __init__(
        self,
        client: WireClient,
        topic: str,
        partition: int,
        *,
        retry_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._topic, self._partition = client, topic, partition
        self._retry_s, self._sleep, self._clock = retry_s, sleep, clock
        self._waiting: deque[tuple[memoryview, int]] = deque()
        self._sent = 0
        """So many of those that wait are on their way."""
        self._leader: Any = None
        self._deadline: float | None = None
        self._pauses = pauses()

    def write(self, batch: memoryview, offset: int) -> None:
        """Send a batch that must get this offset. Its bytes must stay as they are until `finish` returns."""
        while len(self._waiting) >= WINDOW:
            self._take()
        self._waiting.append((batch, offset))
        if self._leader is not None:
            self._try(self._send)

    def finish(self) -> None:
        """Wait until everything has arrived."""
        while self._waiting:
            self._take()

    def _take(self) -> None:
        self._try(self._receive)

    def _send(self) -> None:
        if self._leader is None:
            if self._deadline is not None:
                self._client.refresh([self._topic])
            self._leader = self._client.leader(self._topic, self._partition)
        while self._sent < len(self._waiting):
            self._client.send_batch(self._leader, self._topic, self._partition, self._waiting[self._sent][0])
            self._sent += 1

    def _receive(self) -> None:
        self._send()
        offset = produced_offset(self._leader.receive(), f"cannot write to {self._name}")
        _, wanted = self._waiting.popleft()
        self._sent -= 1
        self._deadline, self._pauses = None, pauses()
        if offset != wanted:
            raise PipelineError(f"{self._name} gave a batch offset {offset}, not {wanted}: someone else writes to it")

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (ConnectionLostError, BrokerError) as error:
            if isinstance(error, BrokerError) and not error.is_retriable:
                raise
            self._client.close()  # answers to what is on its way are of no use any more
            self._leader, self._sent = None, 0
            now, pause = self._clock(), next(self._pauses)
            self._deadline = now + self._retry_s if self._deadline is None else self._deadline
            if now + pause > self._deadline:
                raise gave_up(error, self._retry_s) from error
            self._sleep(pause)

    @property
    def _name(self) -> str:
        return f"{self._topic}-{self._partition} at {self._client.bootstrap}"
