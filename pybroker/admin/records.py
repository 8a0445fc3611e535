"""Writes records, and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.admin.fetched import fetched
from pybroker.admin.steps import Ask, Patience, check
from pybroker.admin.topics import EARLIEST, LATEST, cluster, leaders_of, offsets_of
from pybroker.clock import SystemClock
from pybroker.model import Offset
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records import batch as format_2
from pybroker.records.build import build_batch

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps
    from pybroker.protocol.messages.metadata import MetadataResponseTopic

FETCH_BYTES: Final = 8 << 20
WAIT_MS: Final = 500
"""How long a broker may hold a fetch, before the steps look at their own limit."""
READ_S: Final = 10.0

Text = bytes | str | None
Headers = Mapping[str, Text] | Iterable[tuple[str, Text]]


class Record(NamedTuple):
    """A record as a consumer gets it. `timestamp_ms` is what the topic's settings make it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Batch(NamedTuple):
    """A batch as it lies in the log; `producer_id` and what follows it are -1 without idempotence.

    `size` is in bytes. `codec` is a name, as `zstd`, or `none`.
    """

    base_offset: int
    last_offset: int
    record_count: int
    size: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool


def produce(
    topic: str,
    values: Iterable[Text],
    *,
    key: Text = None,
    partition: int = 0,
    headers: Headers = (),
    timestamp_ms: int | None = None,
) -> Steps[int]:
    """Write one batch with a record for each value, acknowledged by all in-sync replicas; return the offset of the first one.

    Creates the topic, if the settings of the broker allow that. Raises KafkaError.
    """
    now_ms = SystemClock().time_ms() if timestamp_ms is None else timestamp_ms
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    listed = tuple((name, _bytes(value)) for name, value in pairs)
    if not (values := tuple(values)):
        raise ValueError(f"a batch has at least one record: give produce a value for {topic}")
    records = [format_2.Record(Offset(number), now_ms, _bytes(key), _bytes(value), listed) for number, value in enumerate(values)]
    return (yield from append((yield from leaders_of(topic, may_create=True)), partition, records))


def append(topic: MetadataResponseTopic, partition: int, records: Sequence[format_2.Record]) -> Steps[int]:
    """Write one batch, whose records have the offsets from 0 on, acknowledged by all in-sync replicas; return the offset of the
    first one. `topic` is what `leaders_of` returned. Raises KafkaError.
    """
    data = PartitionProduceData(index=partition, records=memoryview(build_batch(records)))
    topic_data = [TopicProduceData(name=topic.name or "", partition_data=[data])]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topic_data)
    leaders = {one.partition_index: one.leader_id for one in topic.partitions}
    check(0 if partition in leaders else 3, f"the topic {topic.name} has no partition {partition}")
    response = yield Ask(request, 9, leaders[partition])
    (result,) = response.responses[0].partition_responses
    check(result.error_code, result.error_message)
    return int(result.base_offset)


def consume(topic: str, *, partition: int | None, committed: bool) -> Steps[list[Record]]:
    """Return the records that are there, by partition and offset. Raises KafkaError for an unknown topic."""
    reading = _Reading(topic, partition, committed=committed)
    yield from reading.begin()
    yield from reading.read_on(until_end=True)
    return reading.records


def wait_for(topic: str, count: int, *, partition: int | None, committed: bool, timeout_s: float) -> Steps[list[Record]]:
    """Return the records as soon as there are `count`; the topic may come later.

    Raises TimeoutError, whose text shows what there is.
    """
    patience, reading = Patience(timeout_s), _Reading(topic, partition, committed=committed)
    while patience.left_s and not reading.positions:
        found = yield from cluster([topic])
        if found.topics[0].error_code:
            yield 0.01
        else:
            yield from reading.begin()
    while len(reading.records) < count:
        if not patience.left_s:
            values = [record.value for record in reading.records]
            raise TimeoutError(f"{topic} has {len(values)} records after {timeout_s:g} s, not {count}: {values[:20]}")
        yield from reading.read_on(until_end=False, wait_ms=min(WAIT_MS, int(patience.left_s * 1000)))
    return reading.records


def batches(topic: str, partition: int) -> Steps[list[Batch]]:
    """Return the batches of a partition. Raises KafkaError for an unknown topic."""
    reading = _Reading(topic, partition, committed=False)
    yield from reading.begin()
    yield from reading.read_on(until_end=True)
    return [
        Batch(
            base_offset=one.base_offset,
            last_offset=one.last_offset,
            record_count=one.record_count,
            size=one.batch_length,
            codec=one.compression.name.lower(),
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            base_sequence=one.base_sequence,
            is_transactional=one.is_transactional,
            is_control=one.is_control,
        )
        for one in reading.batches
    ]


class _Reading:
    """Partitions of a topic that are read from their starts on."""

    def __init__(self, topic: str, partition: int | None, *, committed: bool) -> None:
        self._topic, self._partition, self._committed = topic, partition, committed
        self._leaders: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.batches: list[format_2.BatchView] = []
        self._records: dict[int, list[Record]] = {}

    @property
    def records(self) -> list[Record]:
        """The records so far, by partition and offset."""
        return [record for _, records in sorted(self._records.items()) for record in records]

    def begin(self) -> Steps[None]:
        """Find the partitions and where they begin. Raises KafkaError."""
        found = yield from leaders_of(self._topic)
        starts = yield from offsets_of([found], EARLIEST)
        ends = yield from offsets_of([found], LATEST, isolation=int(self._committed))
        leaders = {one.partition_index: one.leader_id for one in found.partitions}
        wanted = sorted(leaders) if self._partition is None else [self._partition]
        check(0 if set(wanted) <= leaders.keys() else 3, f"the topic {self._topic} has no partition {self._partition}")
        self._leaders = {index: leaders[index] for index in wanted}
        self.positions = {index: starts.get((self._topic, index), 0) for index in wanted}
        self._ends = {index: ends.get((self._topic, index), 0) for index in wanted}

    def read_on(self, *, until_end: bool, wait_ms: int = 0) -> Steps[None]:
        """Read what is there, up to the ends that `begin` found; or what comes within `wait_ms`, once."""
        while True:
            left = {index for index, at in self.positions.items() if not until_end or at < self._ends[index]}
            before = dict(self.positions)
            for leader in sorted({self._leaders[index] for index in left}):
                mine = [index for index in left if self._leaders[index] == leader]
                yield from self._fetch(leader, sorted(mine), wait_ms)
            if not until_end or self.positions == before:
                return

    def _fetch(self, leader: int, partitions: list[int], wait_ms: int) -> Steps[None]:
        found = yield from fetched(
            self._topic,
            leader,
            partitions,
            self.positions,
            bytes_max=FETCH_BYTES,
            wait_ms=wait_ms,
            committed=self._committed,
        )
        for index, batch, has_records in found:
            self.batches.append(batch)
            if has_records:
                self._records.setdefault(index, []).extend(
                    Record(self._topic, index, record.offset, record.timestamp, record.key, record.value, record.headers)
                    for record in batch.records()
                    if record.offset >= self.positions[index]
                )
            self.positions[index] = batch.next_offset


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
