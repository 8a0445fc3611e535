"""Code that tests of jobs over transactions share: a topic whose partitions end in every way in which transactions can end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
import confluent_kafka.admin

from pybroker.spark.cluster import Cluster
from pybroker.spark.isolation import Isolation
from testing.clients.stock import unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pybroker.spark.cluster import Extent

COMMITTED_LAST, ABORTED_LAST, MARKERS_ONLY, OPEN_LAST, ABORTED_ONLY, PLAIN_LAST = range(6)
PARTITIONS = 6
RECORDS = 3
"""The records of a transaction in a partition."""
TIMEOUT_S = 60
OPEN_MS_MAX = 600_000
"""How long a transaction may be open: longer than a test takes on a machine that does much else."""
Values = dict[int, list[bytes]]


def transactional_producer(bootstrap: str) -> confluent_kafka.Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": unique("id"), "transaction.timeout.ms": OPEN_MS_MAX}
    return confluent_kafka.Producer(settings)


class Scene:
    """A topic with stock transactional producers. It knows what readers of each isolation level must see."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.topic = bootstrap, unique("transactions")
        Cluster(bootstrap).create_topic(self.topic, PARTITIONS)
        self.seen: dict[Isolation, Values] = {level: {number: [] for number in range(PARTITIONS)} for level in Isolation}
        self._clients = [transactional_producer(bootstrap) for _ in range(2)]
        first, second = self._clients
        for client in self._clients:
            client.init_transactions(TIMEOUT_S)
        self.transact(first, (COMMITTED_LAST, ABORTED_LAST, MARKERS_ONLY, OPEN_LAST, PLAIN_LAST), is_committed=True)
        self.transact(first, (ABORTED_LAST, MARKERS_ONLY, OPEN_LAST, ABORTED_ONLY, COMMITTED_LAST), is_committed=False)
        self.transact(first, (COMMITTED_LAST, OPEN_LAST), is_committed=True)
        self._keep_only_the_last_marker(MARKERS_ONLY)
        self._plain(PLAIN_LAST)
        self._open = self._begun(second, (OPEN_LAST,))
        self._plain(OPEN_LAST, is_hidden=True)

    def transact(self, client: confluent_kafka.Producer, partitions: tuple[int, ...], *, is_committed: bool) -> None:
        """Write a transaction to these partitions and end it."""
        values = self._begun(client, partitions)
        if is_committed:
            client.commit_transaction(TIMEOUT_S)
            for partition, added in values.items():
                self.seen[Isolation.READ_COMMITTED][partition] += added
        else:
            client.abort_transaction(TIMEOUT_S)

    def abort_the_open(self) -> None:
        """End the open transaction, so that what it has hidden can be seen."""
        self._clients[1].abort_transaction(TIMEOUT_S)
        uncommitted = self.seen[Isolation.READ_UNCOMMITTED][OPEN_LAST]
        self.seen[Isolation.READ_COMMITTED][OPEN_LAST] += [value for value in uncommitted if value.startswith(b"hidden")]

    def extents(self, isolation: Isolation) -> dict[tuple[str, int], Extent]:
        return Cluster(self.bootstrap).extents({self.topic: PARTITIONS}, isolation)

    def close(self) -> None:
        """Let go of the broker, which the clients would report as lost for the rest of the run."""
        for client in self._clients:
            client.close()

    def _begun(self, client: confluent_kafka.Producer, partitions: tuple[int, ...]) -> Values:
        client.begin_transaction()
        values: Values = {}
        for partition in partitions:
            seen = self.seen[Isolation.READ_UNCOMMITTED][partition]
            values[partition] = [b"%d in %d" % (len(seen) + number, partition) for number in range(RECORDS)]
            seen += values[partition]
            for value in values[partition]:
                client.produce(self.topic, value, partition=partition)
        assert client.flush(TIMEOUT_S) == 0
        return values

    def _plain(self, partition: int, *, is_hidden: bool = False) -> None:
        """Write a record without a transaction."""
        client = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap})
        value = b"hidden" if is_hidden else b"plain"
        client.produce(self.topic, value, partition=partition)
        assert client.flush(TIMEOUT_S) == 0
        client.close()
        for level in Isolation:
            if not is_hidden or level is Isolation.READ_UNCOMMITTED:
                self.seen[level][partition].append(value)

    def _keep_only_the_last_marker(self, partition: int) -> None:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap})
        end = self.extents(Isolation.READ_UNCOMMITTED)[self.topic, partition].end
        [future] = admin.delete_records([confluent_kafka.TopicPartition(self.topic, partition, end - 1)]).values()
        future.result(TIMEOUT_S)
        for values in self.seen.values():
            values[partition].clear()


def values_of(frame: DataFrame) -> Values:
    """Return the values of rows by partition, in the order of their offsets."""
    found: Values = {number: [] for number in range(PARTITIONS)}
    rows: list[Any] = frame.select("partition", "offset", "value").orderBy("partition", "offset").collect()
    for row in rows:
        found[row.partition].append(bytes(row.value))
    return found
