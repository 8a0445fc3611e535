"""Reads the records of partitions, those of one leader in one request.

    reader = Reader(client, {Partition("orders", 0): 0}, committed=True)
    while reader.positions:
        for partition, record in reader.records(wait_ms=500): ...

`positions` has the next offset of each partition that is still read: one that reaches its end leaves it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import Offset
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker.protocol.wire import ZERO_UUID
from pybroker.records import legacy
from pybroker.records.aborted import AbortedTransactions
from pybroker.records.batch import MAGIC, MAGIC_AT, BatchView, Record, entry_size
from pybroker.records.errors import CorruptRecordError, InvalidRecordError
from pybroker.spark.wire.client import EARLIEST
from pybroker.spark.wire.errors import BrokerError, check
from pybroker.terminal.session import NAMES, FailedError
from pybroker.tools.groups_admin import Partition

if TYPE_CHECKING:
    from pybroker.spark.wire.client import Topic, WireClient

FETCH_BYTES: Final = 8 << 20
FETCH_BY_ID_SINCE: Final = 13
PAUSE_S: Final = 0.1
PATIENCE_S: Final = 30.0


class Reader:
    """Reads partitions from their positions on, up to `ends` where there are some. Methods raise PipelineError, FailedError."""

    def __init__(
        self,
        client: WireClient,
        positions: Mapping[Partition, int],
        *,
        committed: bool,
        ends: Mapping[Partition, int] | None = None,
    ) -> None:
        self._client, self._committed = client, committed
        self._ends = {} if ends is None else dict(ends)
        self.positions = dict(positions)
        self._ended: dict[Partition, int] = {}
        self._topics: dict[str, Topic] = {}
        self._is_stale = True
        self._troubled_since: dict[Partition, float] = {}
        self._drop_ended()

    @property
    def reached_offsets(self) -> dict[Partition, int]:
        """The next offset of each partition, also of those that have reached their ends."""
        return {**self._ended, **self.positions}

    def records(self, *, wait_ms: int) -> Iterator[tuple[Partition, Record]]:
        """Yield the records of one round of requests, each of which waits this long if there is nothing."""
        for partition, data, aborted in self.rounds(wait_ms=wait_ms):
            for entry in entries(partition, data):
                yield from self._of_entry(partition, entry, aborted)
                if partition not in self.positions:
                    break

    def rounds(self, *, wait_ms: int) -> Iterator[tuple[Partition, memoryview, AbortedTransactions]]:
        """Yield what one round of requests returns: batches as they lie in the log, and which of them were aborted.

        A caller that does not use `records` moves the position by `reached`.
        """
        for found in self._client.retrying(lambda: self._responses(wait_ms)):
            check("cannot read", found.error_code)
            has_room = not any(one.records for topic in found.responses for one in topic.partitions)
            for topic in found.responses:
                name = topic.topic or self._name_of(topic.topic_id)
                for one in topic.partitions:
                    yield from self._of_partition(Partition(name, one.partition_index), one, has_room=has_room)

    def reached(self, partition: Partition, offset: int) -> None:
        """Note that everything before this offset was read."""
        self.positions[partition] = max(offset, self.positions[partition])
        self._drop_ended()

    def _of_entry(
        self, partition: Partition, entry: BatchView | legacy.MessageView, aborted: AbortedTransactions
    ) -> Iterator[tuple[Partition, Record]]:
        is_batch = isinstance(entry, BatchView)
        try:
            is_left_out = isinstance(entry, BatchView) and (aborted.has(entry) or entry.is_control)
            records = () if is_left_out else entry.records() if isinstance(entry, BatchView) else legacy.records_of(entry)
            next_offset = entry.next_offset if isinstance(entry, BatchView) else self.positions[partition]
            for record in records:
                if not is_batch:
                    next_offset = Offset(record.offset + 1)
                if record.offset < self.positions.get(partition, 0):
                    continue
                if record.offset >= self._ends.get(partition, record.offset + 1):
                    break
                self.positions[partition] = record.offset + 1
                yield partition, record
        except (CorruptRecordError, InvalidRecordError) as error:
            raise FailedError(f"{_name(partition)} is damaged at offset {self.positions[partition]}: {error.message}") from error
        self.reached(partition, next_offset)

    def _of_partition(
        self, partition: Partition, one: Any, *, has_room: bool
    ) -> Iterator[tuple[Partition, memoryview, AbortedTransactions]]:
        """Yield the batches of a partition. Without any, others may have used up the response, unless it `has_room`."""
        if partition not in self.positions:
            return
        if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._move_to_start(partition)
            return
        if one.error_code in NAMES and NAMES[one.error_code].is_retriable:
            self._trouble(partition, one.error_code)
            return
        check(_name(partition), one.error_code)
        self._troubled_since.pop(partition, None)
        data = memoryview(b"") if one.records is None else one.records
        if len(data):
            yield partition, data, AbortedTransactions((a.producer_id, a.first_offset) for a in one.aborted_transactions or ())
        elif has_room and partition in self._ends and one.last_stable_offset >= self._ends[partition]:
            self.reached(partition, self._ends[partition])  # a compaction took the rest

    def _move_to_start(self, partition: Partition) -> None:
        """Continue at the first record that is left, when records were deleted. Raises FailedError beyond the end."""
        start = self._client.list_offset(partition.topic, partition.number, timestamp=EARLIEST)
        if start <= self.positions[partition]:
            raise FailedError(f"{_name(partition)}: OFFSET_OUT_OF_RANGE: it does not reach offset {self.positions[partition]}")
        self.reached(partition, start)

    def _trouble(self, partition: Partition, code: int) -> None:
        """Look for the leader again, and raise BrokerError when that has not helped for long."""
        since = self._troubled_since.setdefault(partition, time.monotonic())
        if time.monotonic() - since > PATIENCE_S:
            raise BrokerError(_name(partition), code)
        time.sleep(PAUSE_S)
        self._is_stale = True

    def _look_up(self) -> None:
        self._topics = self._client.topics(sorted({partition.topic for partition in self.positions}))

    def _drop_ended(self) -> None:
        for partition, end in self._ends.items():
            if self.positions.get(partition, -1) >= end:
                self._ended[partition] = self.positions.pop(partition)

    def _name_of(self, topic_id: bytes) -> str:
        return next(name for name, topic in self._topics.items() if topic.topic_id == topic_id)

    def _responses(self, wait_ms: int) -> list[Any]:
        """Ask all leaders at once, and return their responses."""
        if self._is_stale:
            self._look_up()
        self._is_stale = True  # until all have responded
        by_leader: dict[Any, list[Partition]] = {}
        for partition in sorted(self.positions):
            by_leader.setdefault(self._client.leader(*partition), []).append(partition)
        for leader, partitions in by_leader.items():
            leader.send(self._request(partitions, wait_ms, is_by_id=leader.version_of(ApiKey.FETCH) >= FETCH_BY_ID_SINCE))
        responses = [leader.receive() for leader in by_leader]
        self._is_stale = False
        return responses

    def _request(self, partitions: list[Partition], wait_ms: int, *, is_by_id: bool) -> FetchRequest:
        by_topic: dict[str, list[FetchPartition]] = {}
        for partition in partitions:
            wanted = FetchPartition(
                partition=partition.number, fetch_offset=self.positions[partition], partition_max_bytes=FETCH_BYTES
            )
            by_topic.setdefault(partition.topic, []).append(wanted)
        topics = [
            FetchTopic(
                topic="" if is_by_id else name,
                topic_id=self._topics[name].topic_id if is_by_id else ZERO_UUID,
                partitions=listed,
            )
            for name, listed in by_topic.items()
        ]
        return FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=int(self._committed), session_epoch=-1,
            topics=topics,
        )  # fmt: skip


def entries(partition: Partition, data: memoryview) -> Iterator[BatchView | legacy.MessageView]:
    """Yield batches and messages of any magic. Raises FailedError for a size that is impossible."""
    position = 0
    try:
        while (size := entry_size(data, position)) is not None:
            is_batch = data[position + MAGIC_AT] == MAGIC
            yield BatchView(data, position) if is_batch else legacy.MessageView(data, position)
            position += size
    except CorruptRecordError as error:
        raise FailedError(f"{_name(partition)} is damaged: {error.message}") from error


def _name(partition: Partition) -> str:
    return f"{partition.topic}-{partition.number}"
