"""Counts what a producer has sent and what was acknowledged, as it happens, and publishes the counts now and then.

Counts are sets of sequence numbers, by topic, time bucket and chunk of 4096. A report has what is new since the previous report.
Sets only grow, so a report that arrives twice changes nothing. If a report is lost, the audit calls its records unknown. The
memory needed is what an interval adds.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, final

from pybroker.spark.audit.tags import CHUNK, check_name, new_incarnation, runs

COUNTS_TOPIC: Final = "audit-counts"
REPORT_VERSION: Final = 1
_ENTRIES_MAX: Final = 2000
"""The maximum in a report, so that it stays far below the maximum size of a message even if every second record failed."""
_RUNS_MAX: Final = 40_000

Key = tuple[str, int, int]
"""The topic, the bucket (its first millisecond) and the chunk of a count."""


class Outcome(Enum):
    """The fate of a record that the program handed to the client."""

    SENT = "sent"
    ACKED = "acked"
    FAILED = "failed"


@final
class Trail:
    """The counts of an incarnation of a producer. Any thread may call any method.

    `publish(key, report)` sends to the topic of counts. A thread of the trail calls it every `interval_s`, and so does `close`.
    """

    def __init__(
        self,
        producer: str,
        publish: Callable[[bytes, bytes], object],
        *,
        tier: str = "producer",
        bucket_s: int = 60,
        interval_s: float = 10.0,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        if bucket_s < 1:
            raise ValueError("bucket_s must be at least 1")
        self.incarnation = new_incarnation()
        self.producer, self.tier = check_name("producer", producer), check_name("tier", tier)
        self.width_ms = bucket_s * 1000
        self.clock_ms = clock_ms
        self.failed_reports = 0
        """How many attempts to publish a report have failed; the report is sent again with the next."""
        self._publish = publish
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._next: defaultdict[str, int] = defaultdict(int)
        self._new: dict[Outcome, defaultdict[Key, int]] = _empty()
        self._open: defaultdict[Key, int] | None = None
        self._waiting: list[list[dict[str, Any]]] = []
        self._number = 0
        self._closed = threading.Event()
        self._is_ended = False
        self._thread: threading.Thread | None = None
        if interval_s > 0:
            self._thread = threading.Thread(target=self._run, args=(interval_s,), name="audit", daemon=True)
            self._thread.start()

    @property
    def identity(self) -> bytes:
        """The producer and its incarnation, in the form of the tag."""
        return self.producer + b"/" + self.incarnation.encode()

    def send(self, topic: str, timestamp_ms: int) -> int:
        """Count a record that is about to be sent, and return its sequence number."""
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the audited producer is closed")
            sequence = self._next[topic]
            self._next[topic] = sequence + 1
            key, bit = self._place(topic, timestamp_ms=timestamp_ms, sequence=sequence)
            self._new[Outcome.SENT][key] |= bit
            if self._open is not None:
                self._open[key] |= bit
        return sequence

    def settle(self, topic: str, *, timestamp_ms: int, sequence: int, is_acked: bool, is_transactional: bool = False) -> None:
        """Count what became of a record. For a record of a transaction, not the acknowledgement counts but the end."""
        if is_acked and is_transactional:
            return
        key, bit = self._place(topic, timestamp_ms=timestamp_ms, sequence=sequence)
        with self._lock:
            self._new[Outcome.ACKED if is_acked else Outcome.FAILED][key] |= bit

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open is not None

    def begin_transaction(self) -> None:
        """Hold the acknowledgements of the records that follow until the transaction ends.

        The records of a transaction that has not ended remain neither acknowledged nor refused.
        """
        with self._lock:
            self._open = defaultdict(int)

    def end_transaction(self, *, is_committed: bool) -> None:
        """Count the records of the open transaction: as acknowledged if it was committed, as refused if it was aborted."""
        with self._lock:
            outcome = self._new[Outcome.ACKED if is_committed else Outcome.FAILED]
            for key, bits in (self._open or {}).items():
                outcome[key] |= bits
            self._open = None

    def report(self, *, is_end: bool = False) -> None:
        """Publish what is new, and keep for the next time what cannot be published now."""
        with self._publishing:
            with self._lock:
                new, self._new = self._new, _empty()
            self._waiting += _split(new)
            if is_end and not self._waiting:
                self._waiting.append([])
            while self._waiting:
                is_last = is_end and len(self._waiting) == 1
                try:
                    self._publish(self.identity, self._encode(self._waiting[0], is_end=is_last))
                except Exception:  # the client's own kind of error: a full buffer, a broker that is away
                    self.failed_reports += 1
                    if is_end:
                        raise
                    return
                self._waiting.pop(0)
                self._number += 1

    def close(self) -> None:
        """Publish the last report, which is marked as the last. Call this when the client has been flushed."""
        with self._lock:
            self._closed.set()
        if self._thread is not None:
            self._thread.join()
        if not self._is_ended:
            self.report(is_end=True)
            self._is_ended = True

    def _place(self, topic: str, *, timestamp_ms: int, sequence: int) -> tuple[Key, int]:
        """Return the set that a record belongs to, and its bit there."""
        return (topic, timestamp_ms - timestamp_ms % self.width_ms, sequence // CHUNK), 1 << sequence % CHUNK

    def _encode(self, counts: list[dict[str, Any]], *, is_end: bool) -> bytes:
        content = {
            "version": REPORT_VERSION,
            "producer": self.producer.decode(),
            "incarnation": self.incarnation,
            "tier": self.tier.decode(),
            "width_ms": self.width_ms,
            "number": self._number,
            "is_end": is_end,
            "counts": counts,
        }
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()

    def _run(self, interval_s: float) -> None:
        while not self._closed.wait(interval_s):
            self.report()


def _empty() -> dict[Outcome, defaultdict[Key, int]]:
    return {outcome: defaultdict(int) for outcome in Outcome}


def _split(new: dict[Outcome, defaultdict[Key, int]]) -> Iterator[list[dict[str, Any]]]:
    """Divide new counts into the counts of one or more reports."""
    entries: list[dict[str, Any]] = []
    length = 0
    for topic, bucket, chunk in sorted({key for sets in new.values() for key in sets}):
        sets = {outcome.value: runs(new[outcome].get((topic, bucket, chunk), 0)) for outcome in Outcome}
        outcomes = {name: found for name, found in sets.items() if found}
        entries.append({"topic": topic, "bucket": bucket, "chunk": chunk, **outcomes})
        length += sum(map(len, sets.values()))
        if len(entries) >= _ENTRIES_MAX or length >= _RUNS_MAX:
            yield entries
            entries, length = [], 0
    if entries:
        yield entries
