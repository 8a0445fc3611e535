"""Code that tests of the audit share: its command in their process, its table, and a topic that is copied record by record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import confluent_kafka
import pytest
from click.testing import CliRunner, Result

from pybroker.cli import spark_audit
from pybroker.spark.audit.options import AuditOptions, Incremental
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.tagging import AuditedProducer
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from testing.clients.stock import unique
from testing.waiting import Deadline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS: Final = 1_790_000_040_000
BUCKET_MS: Final = 60_000
PARTITIONS: Final = 3
JUDGED: Final = ("expected", "present", "lost", "lost_here", "doubled", "doubled_here", "pending", "unknown", "refused", "late")
OTHERS: Final = ("untagged", "damaged", "other_version")


def invoke(spark: SparkSession, *arguments: str) -> Result:
    """Run the command in this process, on the session of the tests."""

    @contextlib.contextmanager
    def job(*_: object) -> Iterator[SparkSession]:
        try:
            yield spark
        except PipelineError as error:
            raise click.ClickException(str(error)) from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_audit, "job", job)
        return CliRunner().invoke(spark_audit.command, list(arguments))


def rows(path: Path) -> dict[tuple[str | None, str, int], dict[str, Any]]:
    """Read the table, by producer, tier and number of the bucket."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = {}
    for row in pq.read_table(path / "counts").to_pylist():
        bucket = (int(row["bucket"].timestamp() * 1000) - START_MS) // BUCKET_MS
        key = row["producer"], row["tier"], bucket
        assert key not in found
        found[key] = row
    return found


def numbers(row: dict[str, Any], *names: str) -> tuple[int, ...]:
    return tuple(row[name] for name in names)


def spans(row: dict[str, Any], name: str) -> list[tuple[int, int]]:
    return [(one["first"], one["last"]) for one in row[name]]


class Flow:
    """A topic that is copied record by record, so that a test decides what the copy lacks, has twice, or gets late."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.topic, self.counts = bootstrap, unique("flow"), unique("counts")
        self.copy = f"{self.topic}-copy"
        cluster = Cluster(bootstrap)
        for name, partitions in ((self.topic, PARTITIONS), (self.copy, PARTITIONS), (self.counts, 1)):
            cluster.create_topic(name, partitions)
        self.plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.producer = AuditedProducer(self._client, "p", counts_topic=self.counts, interval_s=0)
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "copy"})
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        self._sent = 0
        self._copied = 0
        self._held: dict[int, Any] = {}

    def send(self, *times_ms: int) -> None:
        """Send records of these times, to one partition after the other, and publish their counts."""
        for time_ms in times_ms:
            self.producer.produce(self.topic, b"v", partition=self._sent % PARTITIONS, timestamp=START_MS + time_ms)
            self._sent += 1
        assert self.producer.flush(30) == 0
        self.producer.trail.report()
        assert self.producer.flush(30) == 0

    def pass_on(self, *, without: tuple[int, ...] = (), twice: tuple[int, ...] = ()) -> None:
        """Copy what is new, except for some numbers, which `catch_up` copies."""
        deadline = Deadline(f"{self._sent - self._copied} records of {self.topic}")
        while self._copied < self._sent:
            deadline.check()
            for message in self._consumer.consume(self._sent - self._copied, 1.0):
                tags = dict(message.headers() or ())
                if not tags.get("audit.producer", b"").startswith(b"p/"):
                    continue
                self._copied += 1
                number = int.from_bytes(tags["audit.sequence"][1:], "big")
                if number in without:
                    self._held[number] = message
                    continue
                for _ in range(2 if number in twice else 1):
                    self._produce(message)
        assert self.plain.flush(30) == 0

    def catch_up(self, *late: int) -> None:
        """Copy the numbers that were held back."""
        for number in late:
            self._produce(self._held.pop(number))
        assert self.plain.flush(30) == 0

    def _produce(self, message: Any) -> None:
        self.plain.produce(
            self.copy, None, None, message.partition(), timestamp=message.timestamp()[1], headers=message.headers()
        )

    def close(self) -> None:
        """Send the last counts, and let go of the broker, which the clients would report as lost for the rest of the run."""
        self.producer.close()
        for client in (self._client, self.plain, self._consumer):
            client.close()

    def options(self, path: Path, now_ms: int, **others: Any) -> AuditOptions:
        """Return the options for an audit of the topic and its copy at a time after START_MS."""
        return AuditOptions(
            path=path,
            tiers=(Tier("cluster", self.bootstrap), Tier("copy", self.bootstrap, self.copy)),
            topics=(self.topic,),
            counts=self.bootstrap,
            counts_topic=self.counts,
            grace_s=30,
            now_ms=START_MS + now_ms,
            **others,
        )


def follow(**how: Any) -> Incremental:
    return Incremental(**{"keep_s": 10 * BUCKET_MS / 1000, **how})


def judged(path: Path) -> dict[tuple[str | None, str, int], tuple[int, ...]]:
    return {key: numbers(row, *JUDGED, *OTHERS) for key, row in rows(path).items()}
