"""Producers that tag their records: wrappers of the stock clients, which need neither Spark nor other parts of pybroker.

    producer = AuditedProducer(confluent_kafka.Producer({"bootstrap.servers": "..."}), "orders-api")
    producer.produce("orders", b"value", on_delivery=...)
    producer.close()

    producer = AuditedKafkaProducer(kafka.KafkaProducer(bootstrap_servers="..."), "orders-api")
    producer.send("orders", b"value")
    producer.close()

The rest of the client's interface is unchanged. Each object is an incarnation of its own, with sequence numbers from 0 in each
topic, so that the audit can distinguish a restarted producer from the one before. A record gets the time at which the program
hands it over, unless the program gives a time, so that the producer's count and the record belong to the same bucket. Records
that the client itself sends again keep their number. That is how an audit finds the doubles of a client that is not idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from pybroker.spark.audit.tags import NAMES, PRODUCER, SEQUENCE, TIER, Tags, encode_sequence
from pybroker.spark.audit.trail import COUNTS_TOPIC, Trail

if TYPE_CHECKING:
    from types import TracebackType

_CLOSE_TIMEOUT_S: Final = 60.0
Headers = Mapping[str, Any] | Iterable[tuple[str, Any]] | None


class _Audited:
    """The base of both wrappers."""

    def __init__(self, client: Any, counts: Any, trail: Trail) -> None:
        self.client = client
        self.trail = trail
        self._counts = client if counts is None else counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        raise NotImplementedError

    def init_transactions(self, *arguments: Any, **named: Any) -> Any:
        """Call the client's method of the same name. Raises ValueError when this client also publishes the counts."""
        self._check_counts()
        return self.client.init_transactions(*arguments, **named)

    def begin_transaction(self, *arguments: Any, **named: Any) -> Any:
        """Call the client's method of the same name. The records that follow count when the transaction has ended."""
        self._check_counts()
        found = self.client.begin_transaction(*arguments, **named)
        self.trail.begin_transaction()
        return found

    def commit_transaction(self, *arguments: Any, **named: Any) -> Any:
        """Call the client's method of the same name. Then the records of the transaction are acknowledged."""
        found = self.client.commit_transaction(*arguments, **named)
        self.trail.end_transaction(is_committed=True)
        return found

    def abort_transaction(self, *arguments: Any, **named: Any) -> Any:
        """Call the client's method of the same name. Then the records of the transaction are refused."""
        found = self.client.abort_transaction(*arguments, **named)
        self.trail.end_transaction(is_committed=False)
        return found

    def _check_counts(self) -> None:
        if self._counts is self.client:
            raise ValueError(
                "a transactional producer cannot publish its counts: give another, without transactions, as `counts`"
            )

    def _begin(self, topic: str, timestamp_ms: int) -> tuple[int, Callable[[bool], None]]:
        """Count a record. Return its number, and what to call with whether it is acknowledged."""
        trail, is_transactional = self.trail, self.trail.is_in_transaction
        sequence = trail.send(topic, timestamp_ms)

        def settle(is_acked: bool) -> None:
            trail.settle(
                topic, timestamp_ms=timestamp_ms, sequence=sequence, is_acked=is_acked, is_transactional=is_transactional
            )

        return sequence, settle

    def _tagged(self, headers: Headers, sequence: int) -> Tags:
        """Return the headers followed by the tags, without tags that the record has already because it is passed on."""
        given = headers.items() if isinstance(headers, Mapping) else headers or ()
        kept = [(name, value) for name, value in given if name not in NAMES]
        trail = self.trail
        return [*kept, (PRODUCER, trail.identity), (TIER, trail.tier), (SEQUENCE, encode_sequence(sequence))]


class AuditedProducer(_Audited):
    """A wrapper of confluent-kafka's Producer.

    If `client` changes what it is given (as a SerializingProducer does), or has transactions, `counts` must be another client.
    Acknowledgements are counted when the client calls back, so call `poll` as always. The client must report every delivery
    (`delivery.report.only.error` is false, which is the default). `on_delivery` is for records that are produced without a
    callback of their own.
    """

    def __init__(
        self,
        client: Any,
        name: str,
        *,
        counts: Any = None,
        counts_topic: str = COUNTS_TOPIC,
        on_delivery: Any = None,
        **settings: Any,
    ) -> None:
        self._counts_topic = counts_topic
        self._on_delivery = on_delivery
        super().__init__(client, counts, Trail(name, self._publish, **settings))

    def __len__(self) -> int:
        return len(self.client)

    def produce(  # noqa: PLR0917 (as the client's)
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Headers = None,
        callback: Any = None,
    ) -> None:
        """Tag a record and hand it to the client's method of the same name."""
        on_settled = on_delivery or callback or self._on_delivery
        stamp = timestamp or self.trail.clock_ms()
        sequence, settle = self._begin(topic, stamp)

        def delivered(error: Any, message: Any) -> None:
            settle(error is None)
            if on_settled is not None:
                on_settled(error, message)

        try:
            self.client.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                on_delivery=delivered,
                timestamp=stamp,
                headers=self._tagged(headers, sequence),
            )
        except BaseException:
            settle(False)
            raise

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Wait for all records and publish the last counts. Raises TimeoutError if these cannot be published in time."""
        self.client.flush(timeout_s)
        self.trail.close()
        left = self._counts.flush(timeout_s)
        if left:
            raise TimeoutError(f"{left} messages were not delivered in {timeout_s:g} s, and the last counts may be among them")

    def _publish(self, key: bytes, report: bytes) -> None:
        self._counts.produce(self._counts_topic, value=report, key=key)


class AuditedKafkaProducer(_Audited):
    """A wrapper of kafka-python's KafkaProducer. With serializers or transactions it needs another client, `counts`."""

    def __init__(self, client: Any, name: str, *, counts: Any = None, counts_topic: str = COUNTS_TOPIC, **settings: Any) -> None:
        if counts is None and (client.config["key_serializer"] or client.config["value_serializer"]):
            raise ValueError("a producer with serializers cannot publish its counts: give another as `counts`")
        self._counts_topic = counts_topic
        super().__init__(client, counts, Trail(name, self._publish, **settings))

    def send(  # noqa: PLR0917 (as the client's)
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """Tag a record and hand it to the client's method of the same name."""
        stamp = self.trail.clock_ms() if timestamp_ms is None else timestamp_ms
        sequence, settle = self._begin(topic, stamp)
        try:
            future = self.client.send(
                topic,
                value=value,
                key=key,
                headers=self._tagged(headers, sequence),
                partition=partition,
                timestamp_ms=stamp,
            )
        except BaseException:
            settle(False)
            raise
        future.add_callback(lambda _: settle(True))
        future.add_errback(lambda _: settle(False))
        return future

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Wait for all records, publish the last counts and close the client. Raises what the client raises."""
        try:
            self.client.flush(timeout_s)
            self.trail.close()
            self._counts.flush(timeout_s)
        finally:
            self.client.close(timeout_s)

    def _publish(self, key: bytes, report: bytes) -> None:
        self._counts.send(self._counts_topic, value=report, key=key)
