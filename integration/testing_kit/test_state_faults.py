"""Stock clients meet changes in the state of brokers as they would meet those of Kafka, and what was acknowledged is kept."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import pytest

from integration.testing_kit.test_faults import COUNT, VALUES, with_aiokafka, with_confluent, with_kafka_python
from pybroker.testing import Broker, Cluster, ThreadBroker, ThreadCluster
from testing.clients.group_member import has_forgotten_its_join
from testing.clients.java_clients import JavaClients
from testing.waiting import WAIT_S, Deadline, until

PRODUCERS: Final = [with_confluent, with_kafka_python, with_aiokafka]


@pytest.fixture(scope="module")
def brokers() -> Iterator[ThreadCluster]:
    with Cluster.in_thread(3, {"replica.lag.time.max.ms": 1_000}) as cluster:
        yield cluster


@pytest.fixture
def cluster(brokers: ThreadCluster) -> Iterator[ThreadCluster]:
    yield brokers
    brokers.reset()


def values(broker: ThreadBroker | ThreadCluster, *, committed: bool = False) -> list[bytes | None]:
    return [record.value for record in broker.consume("orders", committed=committed)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # kafka-python leaves the socket that was refused
@pytest.mark.parametrize("produce", PRODUCERS)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_a_directory_that_has_failed_is_written_to_after_a_restart(
    broker: ThreadBroker, produce: Callable[[str], list[bytes]], error: str
) -> None:
    broker.create_topic("orders")
    broker.faults.add(disk_error=error, name="broken")

    def restart() -> None:
        broker.faults.remove("broken")
        broker.restart()

    timer = threading.Timer(0.3, restart)
    timer.start()
    assert produce(broker.bootstrap) == VALUES
    timer.join(WAIT_S)
    assert values(broker) == VALUES


# Producers that are fenced


def fenced_confluent(bootstrap: str, between: Callable[[], None]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay", "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"first")
    assert producer.flush(WAIT_S) == 0
    between()
    producer.produce("orders", b"second")
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.commit_transaction(WAIT_S)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED


def fenced_kafka_python(bootstrap: str, between: Callable[[], None]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="pay")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"first").get(WAIT_S)
    between()
    producer.send("orders", b"second")
    with pytest.raises((kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError)):
        producer.commit_transaction()
    producer.close(0)


def fenced_aiokafka(bootstrap: str, between: Callable[[], None]) -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="pay")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"first")
            between()
            await producer.send("orders", b"second")
            with pytest.raises(aiokafka.errors.ProducerFenced):
                await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(work())


@pytest.mark.parametrize("write", [fenced_confluent, fenced_kafka_python, fenced_aiokafka])
@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
@pytest.mark.parametrize("is_by_id", [False, True])
def test_a_producer_that_another_one_has_fenced_raises(
    broker: ThreadBroker, write: Callable[[str, Callable[[], None]], None], api: str, *, is_by_id: bool
) -> None:
    broker.produce("orders", b"before")

    def fence() -> None:
        whom: dict[str, Any] = (
            {"producer_id": broker.transactions()["pay"].producer_id} if is_by_id else {"transactional_id": "pay"}
        )
        broker.faults.add(name="fenced", api=api, fence=True, **whom)

    write(broker.bootstrap, fence)
    assert broker.faults.rules["fenced"].count == 1
    assert values(broker, committed=True) == [b"before"]
    assert not broker.transactions()["pay"].is_open


# Members of groups


class Member:
    """A member of a group, in the terms that the clients share: the events of its listener, and the values that it has read."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.read: list[bytes] = []

    def note(self, event: str, partitions: Any) -> None:
        if partitions:
            self.events.append(event)

    def poll(self) -> None:
        """Poll once, and commit what that brings."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class OfConfluent(Member):
    def __init__(self, bootstrap: str, protocol: str) -> None:
        super().__init__()
        classic = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100} if protocol == "classic" else {}
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "readers", "group.protocol": protocol, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0, **classic,
        })  # fmt: skip
        self._consumer.subscribe(
            ["orders"],
            on_assign=lambda _, partitions: self.note("assigned", partitions),
            on_revoke=lambda _, partitions: self.note("revoked", partitions),
            on_lost=lambda _, partitions: self.note("lost", partitions),
        )

    def poll(self) -> None:
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.read.append(message.value())
            self._consumer.commit(message, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class OfKafkaPython(Member, kafka.ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, _protocol: str) -> None:
        super().__init__()
        self._begin(bootstrap)

    def _begin(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False,
            session_timeout_ms=6000, heartbeat_interval_ms=100, retry_backoff_ms=20,
        )  # fmt: skip
        self._consumer.subscribe(["orders"], listener=self)

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.note("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self.note("lost", lost)

    def poll(self) -> None:
        if not self.events and has_forgotten_its_join(self._consumer):  # when it joined before it had the topic's metadata
            self.close()
            self._begin(self._bootstrap)
        for records in self._consumer.poll(timeout_ms=50).values():
            self.read += [record.value for record in records]
            self._consumer.commit()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class OfAiokafka(Member, aiokafka.ConsumerRebalanceListener):
    def __init__(self, bootstrap: str, _protocol: str) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._runner.run(self._begin(bootstrap))

    async def _begin(self, bootstrap: str) -> None:
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest", enable_auto_commit=False,
            session_timeout_ms=6000, heartbeat_interval_ms=100, retry_backoff_ms=20,
        )  # fmt: skip
        self._consumer.subscribe(["orders"], listener=self)
        await self._consumer.start()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.note("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self.note("revoked", revoked)

    def poll(self) -> None:
        self._runner.run(self._poll())

    async def _poll(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=50)).values():
            self.read += [record.value for record in records]
            await self._consumer.commit()

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def polled(member: Member, is_done: Callable[[], object], what: str) -> None:
    deadline = Deadline(what)
    while not is_done():
        deadline.check()
        member.poll()


@pytest.mark.parametrize(
    ("make", "protocol", "lost"),
    [
        (OfConfluent, "classic", "lost"),
        (OfConfluent, "consumer", "lost"),
        (OfKafkaPython, "classic", "lost"),
        (OfAiokafka, "classic", "revoked"),  # it has no other event
    ],
)
@pytest.mark.parametrize("action", ["rebalance", "expire"])
def test_a_member_gets_its_partitions_again_and_reads_each_record_once(
    broker: ThreadBroker, make: Callable[[str, str], Member], protocol: str, lost: str, action: str
) -> None:
    broker.produce("orders", b"1", b"2")
    member = make(broker.bootstrap, protocol)
    try:
        polled(member, lambda: len(member.read) == 2, "the records are read")
        (before,) = broker.groups()["readers"].members
        rule = broker.faults.add(group="readers", **{action: True})
        polled(member, lambda: member.events.count("assigned") == 2, "the member has its partition again")
        assert member.events == ["assigned", "revoked" if action == "rebalance" else lost, "assigned"]
        assert rule.count == 1
        broker.produce("orders", b"3")
        polled(member, lambda: b"3" in member.read, "the next record is read")
        assert member.read == [b"1", b"2", b"3"]
        (after,) = broker.groups()["readers"].members
        has_new_id = action == "expire" and protocol == "classic"  # of the consumer protocol, clients choose the id
        assert (after.member_id != before.member_id) is has_new_id
    finally:
        member.close()


def test_a_process_has_the_rules_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('[{"disk_full": true, "for_s": 0.5}, {"api": "Heartbeat", "expire": true, "nth": 15}]')
    with Broker.subprocess({"pybroker.faults.file": str(path)}) as broker:
        assert with_confluent(broker.bootstrap) == VALUES
        member = OfConfluent(broker.bootstrap, "classic")
        try:
            polled(member, lambda: member.events.count("assigned") == 2, "the member has its partition again")
            assert member.events == ["assigned", "lost", "assigned"]
        finally:
            member.close()
        assert [record.value for record in broker.consume("orders")] == VALUES


# Clusters


@pytest.mark.parametrize("produce", PRODUCERS)
@pytest.mark.parametrize("action", ["end_session", "disk_full", "disk_error"])
def test_another_broker_leads_and_nothing_is_lost(
    cluster: ThreadCluster, produce: Callable[[str], list[bytes]], action: str
) -> None:
    cluster.create_topic("orders", replication_factor=3)
    leader = cluster.leader_of("orders")
    if action == "end_session":
        rule = cluster.faults.add(api="Produce", end_session=True, nth=3)
    else:
        rule = cluster.faults[leader].add(**{action: "EIO" if action == "disk_error" else True})
    assert produce(cluster.bootstrap) == VALUES
    assert rule.count == 1
    cluster.faults.clear()
    if action == "disk_error":
        cluster.restart(leader)
    until(lambda: values(cluster) == VALUES, "the records are there")
    until(lambda: len(cluster.topics()["orders"].partitions[0].isr) == 3, "all replicas are in sync again")


@pytest.mark.skipif(shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven")
def test_another_broker_leads_and_nothing_of_java_is_lost(
    cluster: ThreadCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    java = JavaClients("3.9.2", tmp_path_factory.mktemp("java"))
    try:
        cluster.create_topic("orders", replication_factor=3)
        rule = cluster.faults.add(api="Produce", end_session=True, nth=3)
        assert java.do("produce", cluster.bootstrap, "orders", COUNT) == [value.decode() for value in VALUES]
        assert rule.count == 1
        until(lambda: values(cluster) == VALUES, "the records are there")
    finally:
        java.close()
