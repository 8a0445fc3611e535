"""Reads and counts a partition: the work of a Spark task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.aborted import AbortedTransactions
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.errors import PipelineError
from pybroker.spark.report.counting import Counting
from pybroker.spark.wire.client import COMMITTED, UNCOMMITTED, Connect, WireClient
from pybroker.spark.wire.errors import BrokerError

if TYPE_CHECKING:
    from pybroker.model import Offset
    from pybroker.spark.report.keys import Found
    from pybroker.spark.report.plan import Extent
    from pybroker.spark.report.tally import Tally

_EMPTY_RESPONSES_MAX: Final = 20
_FETCH_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition to read, and all that its task needs to know."""

    bootstrap: str
    topic: str
    topic_id: bytes
    partition: int
    extent: Extent
    now_ms: int
    keys_max: int
    key_bytes_max: int
    retry_s: float
    connect: Connect | None = None

    @property
    def name(self) -> str:
        """The name of the partition, as people write it."""
        return f"{self.topic}-{self.partition}"


def look(part: Part, on_counted: Callable[[int], None] | None = None) -> tuple[Tally, Found]:
    """Read and count the ranges of a partition. Raises PipelineError."""
    counting = Counting(part.now_ms, keys_max=part.keys_max, key_bytes_max=part.key_bytes_max, on_counted=on_counted)
    with WireClient(part.bootstrap, retry_s=part.retry_s, connect=part.connect) as client:
        if part.extent.ranges and client.topic(part.topic).topic_id != part.topic_id:
            raise PipelineError(f"topic {part.topic} at {part.bootstrap} was deleted and created again while the job ran")
        for first, end in part.extent.ranges:
            deleted = read(client, part, counting, first=first, end=end)
            counting.looked(end - first - deleted, deleted=deleted)
    return counting.finish()


def read(client: WireClient, part: Part, counting: Counting, *, first: Offset, end: Offset) -> int:
    """Count a range. Return how many of its offsets were deleted before they could be read.

    Below the last stable offset, the broker's list shows what was aborted. Beyond it, the markers do, as far as they are read.
    """
    deleted, empty = 0, 0
    while first < end:
        isolation = COMMITTED if first < part.extent.stable else UNCOMMITTED
        try:
            fetched = client.fetch(part.topic, part.partition, offset=first, max_bytes=_FETCH_BYTES, isolation=isolation)
        except BrokerError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            start = client.list_offset(part.topic, part.partition, timestamp=-2)
            if start <= first:
                raise PipelineError(
                    f"{part.name} ends before offset {first}, which it had: its log was truncated meanwhile"
                ) from error
            deleted += min(start, end) - first
            first = start
            continue
        try:
            aborted = AbortedTransactions(fetched.aborted) if isolation == COMMITTED else None
            following = counting.add(fetched.data, first, end, aborted)
        except CorruptRecordError as error:
            raise PipelineError(
                f"{part.name} at {part.bootstrap} has damaged records at or after offset {first}: {error}"
            ) from error
        if following > first:
            first, empty = following, 0
        elif fetched.data:
            raise PipelineError(f"{part.name} at {part.bootstrap} has no whole batch at offset {first}")
        elif isolation == COMMITTED and fetched.last_stable_offset >= part.extent.stable:
            first = part.extent.stable  # compaction removed the records before it
        elif isolation == UNCOMMITTED and fetched.high_watermark >= end:
            break  # compaction removed the last records
        else:
            empty += 1
            if empty > _EMPTY_RESPONSES_MAX:
                raise PipelineError(
                    f"{part.name} at {part.bootstrap} returns no records from offset {first}, although it had records up to {end}"
                )
    return deleted
