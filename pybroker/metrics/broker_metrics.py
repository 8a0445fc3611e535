"""All numbers of one broker, in plain attributes that their owners increment on the loop's thread.

Numbers come in two ways. Those that several layers count are attributes here: requests, topics, conversions. Those that one
object owns (a pool, a cache, a purgatory) stay there, and its owner registers a callable that reads them:
`metrics.gauge("kafka_network_socketserver_memorypoolused", "Bytes ...", lambda: pool.size - pool.available)`.

This module does not know how the numbers leave the process. That is the job of `exporter`, which may read them from another
thread: a plain int is always whole, and numbers of one scrape may be a few requests apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pybroker.metrics.counts import TopicCounts
from pybroker.metrics.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from pybroker.metrics.histogram import Histogram

Number = int | float
LabelledRead = Callable[[], Mapping[tuple[str, ...], Number]]


class TopicMetrics(TopicCounts):
    """One topic, or all topics together, since the start.

    `bytes_in` and `bytes_out` are record batches only, without requests around them. `messages_in` are records. The conversions
    are records that were converted to another format for an old client.
    """

    __slots__ = (
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_message_conversions",
        "produce_message_conversions",
    )
    NAMES: ClassVar = ("bytes_in", "bytes_out", "fetch_requests", "messages_in", "produce_requests", *__slots__)
    """The names of all numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_rejected = 0
        self.failed_fetch_requests = 0
        self.failed_produce_requests = 0
        self.fetch_message_conversions = 0
        self.produce_message_conversions = 0

    @classmethod
    def together(cls, counted: Iterable[TopicMetrics]) -> TopicMetrics:
        """Return the sums of the numbers in `counted`."""
        sums = cls()
        for one in counted:
            for name in cls.NAMES:
                setattr(sums, name, getattr(sums, name) + getattr(one, name))
        return sums


class Reading(NamedTuple):
    """A number that its owner keeps. `labels` names the parts of the keys that `read` returns; without labels the key is ()."""

    name: str
    help: str
    is_counter: bool
    labels: tuple[str, ...]
    read: LabelledRead


class PartitionReading(NamedTuple):
    """A gauge of each partition: `read` yields the topic, the partition and the number.

    `adds_up` is whether the sum over partitions means something; a sum of offsets does not.
    """

    name: str
    help: str
    adds_up: bool
    read: Callable[[], Iterable[tuple[str, int, Number]]]


class CommittedReading(NamedTuple):
    """The offset that a group has committed for a partition, and how many records are left to read; None if there is no such
    partition.
    """

    topic: str
    partition: int
    offset: int
    lag: int | None


class GroupReading(NamedTuple):
    """A group: its state, and what it has committed. `read_offsets` yields about `offset_count` offsets."""

    group_id: str
    protocol: str
    state: str
    member_count: int
    offset_count: int
    read_offsets: Callable[[], Iterable[CommittedReading]]


class Durations(NamedTuple):
    """A histogram of durations that its owner keeps."""

    name: str
    help: str
    histogram: Histogram


class BrokerMetrics:
    """The numbers of one broker."""

    __slots__ = (
        "_counted",
        "conversion_ns",
        "durations",
        "groups",
        "partitions",
        "readings",
        "requests",
        "topics",
        "unexpected_errors",
    )

    def __init__(self) -> None:
        self.requests: dict[int, RequestMetrics] = {}
        self.topics: dict[str, TopicMetrics] = {}
        self._counted = [TopicMetrics()]
        """The numbers of no topic, followed by those of all topics."""
        self.conversion_ns = {"Produce": 0, "Fetch": 0}
        """Time spent converting record formats, by Kafka's name of the request."""
        self.unexpected_errors = 0
        """Bugs of the broker: handlers, jobs of disk threads and periodic tasks that raised unexpected exceptions."""
        self.readings: list[Reading] = []
        self.partitions: list[PartitionReading] = []
        self.durations: list[Durations] = []
        self.groups: Callable[[], Iterable[GroupReading]] = tuple
        """Yields the groups; it runs in another thread."""

    @property
    def all_topics(self) -> TopicMetrics:
        """The sums of what all topics count, deleted topics too. They are made when they are read, so a request counts once."""
        return TopicMetrics.together(list(self._counted))

    @property
    def no_topic(self) -> TopicMetrics:
        """The place for the events of topics that are unknown. It also keeps the numbers of deleted topics."""
        return self._counted[0]

    def request(self, api_key: int, name: str) -> RequestMetrics:
        """Return the counters of one API; `name` is Kafka's, used at the first call."""
        metrics = self.requests.get(api_key)
        if metrics is None:
            metrics = self.requests[api_key] = RequestMetrics(name)
        return metrics

    def topic(self, name: str) -> TopicMetrics:
        """Return the counters of one topic, made at the first call."""
        metrics = self.topics.get(name)
        if metrics is None:
            metrics = self.topics[name] = TopicMetrics()
            self._counted.append(metrics)
        return metrics

    def forget_topics(self, names: Sequence[str]) -> Iterator[None]:
        """Drop the counters of deleted topics, in slices; the sums keep their numbers."""
        deleted: set[TopicMetrics] = set()
        sums = TopicMetrics()
        for name in names:
            if (one := self.topics.pop(name, None)) is not None:
                deleted.add(one)
                sums = TopicMetrics.together((sums, one))
            yield
        none, *others = self._counted
        # One pass for all of them, and one assignment, because another thread may read the sums meanwhile.
        self._counted = [TopicMetrics.together((none, sums)), *(one for one in others if one not in deleted)]

    def gauge(self, name: str, help_text: str, read: Callable[[], Number]) -> None:
        """Register a number that goes up and down. `read` runs in another thread: it only looks at plain attributes."""
        self.readings.append(Reading(name, help_text, False, (), lambda: {(): read()}))

    def counter(self, name: str, help_text: str, read: Callable[[], Number]) -> None:
        """Register a number that only grows; `name` ends in _total. `read` as for `gauge`."""
        assert name.endswith("_total")
        self.readings.append(Reading(name, help_text, True, (), lambda: {(): read()}))

    def histogram(self, name: str, help_text: str, histogram: Histogram) -> None:
        """Register durations, to be exported with all their buckets in seconds; `name` ends in _seconds."""
        assert name.endswith("_seconds")
        self.durations.append(Durations(name, help_text, histogram))

    def labelled_gauge(self, name: str, help_text: str, labels: tuple[str, ...], read: LabelledRead) -> None:
        """Register a gauge per key of what `read` returns; a key has one text per label."""
        self.readings.append(Reading(name, help_text, False, labels, read))

    def labelled_counter(self, name: str, help_text: str, labels: tuple[str, ...], read: LabelledRead) -> None:
        """Register a counter per key of what `read` returns; `name` ends in _total."""
        assert name.endswith("_total")
        self.readings.append(Reading(name, help_text, True, labels, read))

    def partition_gauge(
        self, name: str, help_text: str, read: Callable[[], Iterable[tuple[str, int, Number]]], *, adds_up: bool
    ) -> None:
        """Register a gauge of each partition; see `PartitionReading`. `read` as for `gauge`."""
        self.partitions.append(PartitionReading(name, help_text, adds_up, read))
