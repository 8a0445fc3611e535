"""The numbers in Prometheus form, under the names that Kafka's users know from the usual rules of the JMX exporter.

Each number is read while its line is written, so a page of many lines needs no second copy of them, and the thread that makes it
can take breaks between any two (`pages.Breaks`).

Source: kafka-2_0_0.yml of prometheus/jmx_exporter for the names; docs/metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from pybroker.metrics.group_families import group_families

if TYPE_CHECKING:
    from pybroker.metrics.broker_metrics import BrokerMetrics, Durations, Number, PartitionReading, Reading, TopicMetrics
    from pybroker.metrics.histogram import Histogram

QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
_MS_PER_NS: Final = 1e-6
_S_PER_NS: Final = 1e-9
BUCKET_BITS_MIN: Final = 14  # 16 us
BUCKET_BITS_MAX: Final = 33  # 8.6 s


@dataclass(slots=True, frozen=True)
class Name:
    """A metric that always exists. `attribute` is of RequestMetrics or TopicMetrics."""

    name: str
    help: str
    attribute: str


REQUEST_TIMES: Final = (
    Name(
        "kafka_network_requestmetrics_totaltimems",
        "Time of a request, from when it was read to when its response was sent, in ms",
        "total_ns",
    ),
    Name("kafka_network_requestmetrics_requestqueuetimems", "Part of it before the handler began", "queue_ns"),
    Name("kafka_network_requestmetrics_localtimems", "Part of it in the handler", "local_ns"),
    Name("kafka_network_requestmetrics_remotetimems", "Part of it waiting for data, replicas or time", "remote_ns"),
    Name(
        "kafka_network_requestmetrics_responsesendtimems",
        "Part of it from the finished response until the socket took it",
        "send_ns",
    ),
)
REQUEST_BYTES: Final = (
    Name("kafka_network_requestmetrics_requestbytes_total", "Bytes of requests", "request_bytes"),
    Name("kafka_network_requestmetrics_responsebytes_total", "Bytes of responses", "response_bytes"),
)
TOPIC_COUNTERS: Final = (
    Name("kafka_server_brokertopicmetrics_bytesin_total", "Bytes of batches produced", "bytes_in"),
    Name("kafka_server_brokertopicmetrics_bytesout_total", "Bytes of batches fetched", "bytes_out"),
    Name("kafka_server_brokertopicmetrics_bytesrejected_total", "Bytes of batches that were too large", "bytes_rejected"),
    Name("kafka_server_brokertopicmetrics_messagesin_total", "Records produced", "messages_in"),
    Name("kafka_server_brokertopicmetrics_totalproducerequests_total", "Produce requests", "produce_requests"),
    Name("kafka_server_brokertopicmetrics_totalfetchrequests_total", "Fetch requests", "fetch_requests"),
    Name("kafka_server_brokertopicmetrics_failedproducerequests_total", "Produce requests refused", "failed_produce_requests"),
    Name("kafka_server_brokertopicmetrics_failedfetchrequests_total", "Fetch requests refused", "failed_fetch_requests"),
    Name(
        "kafka_server_brokertopicmetrics_producemessageconversions_total",
        "Records converted up when produced",
        "produce_message_conversions",
    ),
    Name(
        "kafka_server_brokertopicmetrics_fetchmessageconversions_total",
        "Records converted down when fetched",
        "fetch_message_conversions",
    ),
)
REQUESTS: Final = Name("kafka_network_requestmetrics_requests_total", "Requests by API and version", "requests")
ERRORS: Final = Name(
    "kafka_network_requestmetrics_errors_total",
    "Error codes in responses, NONE too; a response has a code for each partition",
    "errors",
)
CONVERSION_TIME: Final = Name(
    "kafka_network_requestmetrics_messageconversionstimems_total", "Time spent converting records, in ms", ""
)
UNEXPECTED: Final = Name(
    "pybroker_unexpected_errors_total",
    "Work that failed because of a bug in the broker: requests, work on the disks, periodic tasks",
    "",
)


@dataclass(slots=True, frozen=True)
class Scope:
    """Which series of topics and groups are on the page.

    `topics` is "all" for each topic and partition, "sum" for each topic with its partitions summed, "none" for only the sums of
    all topics. `groups` is "all" for each group and partition, "sum" for each group and topic, "none" for no groups. Topics in
    `hidden` have no series of their own; the sums of all topics include them.
    """

    topics: str = "all"
    groups: str = "all"
    hidden: frozenset[str] = frozenset()


EVERYTHING: Final = Scope()


class _Samples(list[Sample]):
    """Samples that are made while they are written, with breaks. As a list it is empty."""

    def __init__(self, source: Iterable[Sample], take_break: Callable[[], None]) -> None:
        super().__init__()
        self._source = source
        self._take_break = take_break

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._source:
            self._take_break()
            yield sample


class BrokerCollector(Collector):
    """Makes one scrape's worth of metric families. Each may be walked once."""

    def __init__(self, metrics: BrokerMetrics, scope: Scope = EVERYTHING, take_break: Callable[[], None] = lambda: None) -> None:
        """`take_break` is called before each sample."""
        self._metrics = metrics
        self._scope = scope
        self._take_break = take_break

    def collect(self) -> Iterator[Metric]:
        """Yield all families; those without a sample yet too, so that a dashboard finds them."""
        yield from self._requests()
        yield from self._topics()
        metrics = self._metrics
        conversions = (({"request": request}, ns * _MS_PER_NS) for request, ns in metrics.conversion_ns.items())
        yield self._counter(CONVERSION_TIME, conversions)
        yield self._counter(UNEXPECTED, [({}, metrics.unexpected_errors)])
        yield from (self._read(reading) for reading in metrics.readings)
        yield from self._groups()
        yield from (self._family(one.name, one.help, "histogram", _buckets(one)) for one in metrics.durations)

    # `list` and `dict` copy in one step of the interpreter, so that the loop's thread may add entries meanwhile.

    def _requests(self) -> Iterator[Metric]:
        apis = list(self._metrics.requests.values())
        requests = (
            ({"request": api.name, "version": str(version)}, count)
            for api in apis
            for version, count in dict(api.requests).items()
        )
        yield self._counter(REQUESTS, requests)
        errors = (({"request": api.name, "error": error}, count) for api in apis for error, count in dict(api.errors).items())
        yield self._counter(ERRORS, errors)
        for name in REQUEST_BYTES:
            yield self._counter(name, [({"request": api.name}, getattr(api, name.attribute)) for api in apis])
        for name in REQUEST_TIMES:
            times = [sample for api in apis for sample in _summary(name, {"request": api.name}, getattr(api, name.attribute))]
            yield self._family(name.name, name.help, "summary", times)

    def _topics(self) -> Iterator[Metric]:
        scope, together = self._scope, self._metrics.all_topics
        shown = [] if scope.topics == "none" else list(self._metrics.topics.items())
        topics = [(topic, metrics) for topic, metrics in shown if topic not in scope.hidden]
        for name in TOPIC_COUNTERS:
            yield self._counter(name, _of_topics(name.attribute, topics, together))
        for reading in self._metrics.partitions:
            if scope.topics == "all" or reading.adds_up:
                yield self._family(reading.name, reading.help, "gauge", self._of_partitions(reading))

    def _groups(self) -> Iterator[Metric]:
        scope = self._scope
        if scope.groups != "none":
            is_summed, groups = scope.groups == "sum", self._metrics.groups()
            for one in group_families(groups, is_summed=is_summed, hidden=scope.hidden, take_break=self._take_break):
                yield self._family(one.name, one.help, "gauge", one.samples)

    def _of_partitions(self, reading: PartitionReading) -> Iterator[Sample]:
        scope, name = self._scope, reading.name
        shown = ((topic, partition, value) for topic, partition, value in reading.read() if topic not in scope.hidden)
        if scope.topics == "all":
            for topic, partition, value in shown:
                yield Sample(name, {"topic": topic, "partition": str(partition)}, value)
        elif scope.topics == "sum":
            sums: dict[str, Number] = {}
            for topic, _, value in shown:
                self._take_break()
                sums[topic] = sums.get(topic, 0) + value
            for topic, value in sums.items():
                yield Sample(name, {"topic": topic}, value)
        else:
            yield Sample(name, {}, sum(value for _, _, value in reading.read()))

    def _read(self, reading: Reading) -> Metric:
        samples = (
            Sample(reading.name, dict(zip(reading.labels, key, strict=True)), value) for key, value in reading.read().items()
        )
        return self._family(reading.name, reading.help, "counter" if reading.is_counter else "gauge", samples)

    def _counter(self, name: Name, values: Iterable[tuple[dict[str, str], Number]]) -> Metric:
        return self._family(name.name, name.help, "counter", (Sample(name.name, labels, value) for labels, value in values))

    def _family(self, name: str, help_text: str, kind: str, samples: Iterable[Sample]) -> Metric:
        family = Metric(name.removesuffix("_total") if kind == "counter" else name, help_text, kind)
        family.samples = _Samples(samples, self._take_break)
        return family


def _of_topics(
    attribute: str, topics: Iterable[tuple[str, TopicMetrics]], together: TopicMetrics
) -> Iterator[tuple[dict[str, str], Number]]:
    yield {}, getattr(together, attribute)
    for topic, metrics in topics:
        yield {"topic": topic}, getattr(metrics, attribute)


def _summary(name: Name, labels: dict[str, str], histogram: Histogram) -> Iterator[Sample]:
    for quantile in QUANTILES:
        yield Sample(name.name, {**labels, "quantile": str(quantile)}, histogram.quantile(quantile) * _MS_PER_NS)
    yield Sample(f"{name.name}_count", labels, histogram.count)
    yield Sample(f"{name.name}_sum", labels, histogram.sum * _MS_PER_NS)


def _buckets(durations: Durations) -> Iterator[Sample]:
    """Yield a histogram with a bucket per power of two."""
    buckets, below = durations.histogram.buckets, 0
    for bits, count in enumerate(buckets):
        below += count
        if BUCKET_BITS_MIN <= bits <= BUCKET_BITS_MAX:
            yield Sample(f"{durations.name}_bucket", {"le": repr((1 << bits) * _S_PER_NS)}, below)
    yield Sample(f"{durations.name}_bucket", {"le": "+Inf"}, below)
    yield Sample(f"{durations.name}_count", {}, below)
    yield Sample(f"{durations.name}_sum", {}, durations.histogram.sum * _S_PER_NS)
