"""The numbers in Prometheus form, under the names that Kafka's users know from the usual rules of the JMX exporter.

Imported only when metrics are on: prometheus_client costs some 7 MB and 50 ms.

Source: kafka-2_0_0.yml of prometheus/jmx_exporter for the names; docs/metrics.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    import threading
    from wsgiref.simple_server import WSGIServer

    from pybroker.metrics.broker_metrics import BrokerMetrics, Durations, Reading
    from pybroker.metrics.histogram import Histogram

QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)
_STOP_SECONDS: Final = 2.0
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


class BrokerCollector(Collector):
    """Makes one scrape's worth of metric families."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield all families; those without a sample yet too, so that a dashboard finds them."""
        yield from self._requests()
        yield from self._topics()
        conversion = _counter(CONVERSION_TIME)
        for request, duration_ns in self._metrics.conversion_ns.items():
            conversion.add_sample(CONVERSION_TIME.name, {"request": request}, duration_ns * _MS_PER_NS)
        yield conversion
        unexpected = _counter(UNEXPECTED)
        unexpected.add_sample(UNEXPECTED.name, {}, self._metrics.unexpected_errors)
        yield unexpected
        yield from (_read(reading) for reading in self._metrics.readings)
        yield from (_buckets(durations) for durations in self._metrics.durations)

    # `list` and `dict` copy in one step of the interpreter, so that the loop's thread may add entries meanwhile.

    def _requests(self) -> Iterator[Metric]:
        apis = list(self._metrics.requests.values())
        requests, errors = _counter(REQUESTS), _counter(ERRORS)
        for api in apis:
            for version, count in dict(api.requests).items():
                requests.add_sample(REQUESTS.name, {"request": api.name, "version": str(version)}, count)
            for error, count in dict(api.errors).items():
                errors.add_sample(ERRORS.name, {"request": api.name, "error": error}, count)
        yield requests
        yield errors
        for name in REQUEST_BYTES:
            family = _counter(name)
            for api in apis:
                family.add_sample(name.name, {"request": api.name}, getattr(api, name.attribute))
            yield family
        for name in REQUEST_TIMES:
            family = Metric(name.name, name.help, "summary")
            for api in apis:
                _add_summary(family, {"request": api.name}, getattr(api, name.attribute))
            yield family

    def _topics(self) -> Iterator[Metric]:
        topics, together = list(self._metrics.topics.items()), self._metrics.all_topics
        for name in TOPIC_COUNTERS:
            family = _counter(name)
            family.add_sample(name.name, {}, getattr(together, name.attribute))
            for topic, metrics in topics:
                family.add_sample(name.name, {"topic": topic}, getattr(metrics, name.attribute))
            yield family


def _counter(name: Name) -> Metric:
    return Metric(name.name.removesuffix("_total"), name.help, "counter")


def _add_summary(family: Metric, labels: dict[str, str], histogram: Histogram) -> None:
    for quantile in QUANTILES:
        family.add_sample(family.name, {**labels, "quantile": str(quantile)}, histogram.quantile(quantile) * _MS_PER_NS)
    family.add_sample(f"{family.name}_count", labels, histogram.count)
    family.add_sample(f"{family.name}_sum", labels, histogram.sum * _MS_PER_NS)


def _read(reading: Reading) -> Metric:
    name = reading.name.removesuffix("_total") if reading.is_counter else reading.name
    family = Metric(name, reading.help, "counter" if reading.is_counter else "gauge")
    for key, value in reading.read().items():
        family.add_sample(reading.name, dict(zip(reading.labels, key, strict=True)), value)
    return family


def _buckets(durations: Durations) -> Metric:
    """Return a histogram with a bucket per power of two."""
    family = Metric(durations.name, durations.help, "histogram")
    buckets, below = durations.histogram.buckets, 0
    for bits, count in enumerate(buckets):
        below += count
        if BUCKET_BITS_MIN <= bits <= BUCKET_BITS_MAX:
            family.add_sample(f"{durations.name}_bucket", {"le": repr((1 << bits) * _S_PER_NS)}, below)
    family.add_sample(f"{durations.name}_bucket", {"le": "+Inf"}, below)
    family.add_sample(f"{durations.name}_count", {}, below)
    family.add_sample(f"{durations.name}_sum", {}, durations.histogram.sum * _S_PER_NS)
    return family


class MetricsServer:
    """The HTTP page with the metrics, in threads of its own, so that a slow reader holds up nothing else."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(BrokerCollector(metrics))
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which is the given one unless that is 0. Raises OSError that names the address."""
        assert self._server is None
        try:
            self._server, self._thread = start_http_server(port, addr=host or "0.0.0.0", registry=self._registry)  # noqa: S104
        except OSError as error:
            raise OSError(error.errno, f"metrics.listener={host}:{port}: cannot listen: {error.strerror or error}") from error
        return self._server.server_port

    def stop(self) -> None:
        """Stop listening, within about a second; the rest of a response under way is dropped at the process's end."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOP_SECONDS)
        self._server = self._thread = None
