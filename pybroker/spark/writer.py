"""Writes the records of a job's tasks, each with a given partition, time and headers.

Spark's own sink cannot set timestamps. The client is idempotent and stops at the first record that it cannot write, so what has
arrived in a partition is always the beginning of a task's records for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from pybroker.spark.cluster import NO_LOG, client_settings
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_QUEUE_MESSAGES: Final = 100_000
_QUEUE_KB: Final = 65_536
_LARGEST_RECORD: Final = 100_000_000
_BATCH_BYTES: Final = 500_000


@dataclass(frozen=True, slots=True)
class Target:
    """A topic to write to."""

    bootstrap: str
    topic: str
    codec: str = "none"
    timeout_s: float = 120.0
    """How many seconds a record may wait for a broker that is away."""


@final
class TopicWriter:
    """The client of a task. Call `finish` at the end: only then has everything arrived."""

    def __init__(self, target: Target) -> None:
        from confluent_kafka import Producer

        self._target = target
        self._failure: str | None = None
        self._producer: Producer = Producer(
            {
                **client_settings(target.bootstrap),
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
                "compression.type": target.codec,
                "linger.ms": 20,
                "batch.size": _BATCH_BYTES,
                "message.max.bytes": _LARGEST_RECORD,
                "message.timeout.ms": int(target.timeout_s * 1000),
                "queue.buffering.max.messages": _QUEUE_MESSAGES,
                "queue.buffering.max.kbytes": _QUEUE_KB,
                "delivery.report.only.error": True,
                "on_delivery": self._on_failure,
            },
            logger=NO_LOG,
        )

    def write(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        """Queue a record; without a timestamp it gets the present time. Raises PipelineError when an earlier record failed."""
        if timestamp_ms == 0:
            raise PipelineError("a record has the timestamp 0 (1970-01-01), which the client cannot write")
        while True:
            try:
                self._producer.produce(
                    self._target.topic, value, key, partition, timestamp=timestamp_ms or 0, headers=list(headers) or None
                )
            except BufferError:
                self._producer.poll(0.1)
                self._check()
            else:
                break

    def poll(self) -> None:
        """Receive reports of failures; call it now and then. Raises PipelineError for the first failure."""
        self._producer.poll(0)
        self._check()

    def finish(self) -> None:
        """Wait until everything has arrived. Raises PipelineError when a record has not."""
        left = self._producer.flush(self._target.timeout_s + 10)
        self._check()
        if left:
            raise PipelineError(f"{left} records did not reach topic {self._target.topic} at {self._target.bootstrap}")

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = f"cannot write to {message.topic()}-{message.partition()} at {self._target.bootstrap}: {error.str()}"

    def _check(self) -> None:
        if self._failure is not None:
            raise PipelineError(self._failure)
