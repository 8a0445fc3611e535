"""Our commands in a cluster of three: whichever broker they are pointed at, each request goes to the broker that knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from testing.process.our_commands import run_command
from testing.process.several import SeveralBrokers
from testing.waiting import until

TIMEOUT_S = 60
GROUPS = [f"group-{number}" for number in range(8)]
PARTITIONS = 6


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    """Three brokers with a topic whose partition N has N + 1 records, and groups that have read one of each."""
    with SeveralBrokers(tmp_path_factory.mktemp("cluster"), 3) as brokers:
        settings = {"bootstrap.servers": brokers.bootstrap}
        admin = AdminClient(settings)  # a client that is not held ends its requests
        admin.create_topics([NewTopic("orders", PARTITIONS, 2)])["orders"].result(TIMEOUT_S)
        producer = Producer(settings)
        for partition in range(PARTITIONS):
            for _ in range(partition + 1):
                producer.produce("orders", b"order", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        for group in GROUPS:
            consumer = Consumer({**settings, "group.id": group})
            offsets = [TopicPartition("orders", partition, 1) for partition in range(PARTITIONS)]
            consumer.commit(offsets=offsets, asynchronous=False)
            consumer.close()
        yield brokers


@pytest.fixture(scope="module")
def cluster(brokers: SeveralBrokers) -> list[str]:
    """Return the addresses of the brokers."""
    return brokers.bootstrap.split(",")


def run(tool: str, broker: str, *arguments: str) -> list[str]:
    """Return the lines of a command, without empty ones."""
    ran = run_command(f"kafka-{tool}", "--bootstrap-server", broker, *arguments)
    assert ran.code == 0, ran
    assert "rror" not in ran.out, ran.out
    return [line for line in ran.out.splitlines() if line.strip()]


def offsets(broker: str, group: str) -> dict[int, tuple[int, int, int]]:
    """Return the current offset, the log end offset and the lag of each partition."""
    rows = [line.split() for line in run("consumer-groups", broker, "--describe", "--group", group)[1:]]
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in rows}


@pytest.mark.parametrize("number", range(3))
def test_groups_are_listed_and_described_whichever_broker_is_named(cluster: list[str], number: int) -> None:
    broker = cluster[number]
    assert run("consumer-groups", broker, "--list") == GROUPS
    expected = {partition: (1, partition + 1, partition) for partition in range(PARTITIONS)}
    assert all(offsets(broker, group) == expected for group in GROUPS)
    states = {line.split()[0]: line.split()[2] for line in run("consumer-groups", broker, "--list", "--state", "--type")[1:]}
    assert states == dict.fromkeys(GROUPS, "Empty")
    coordinators = {run("consumer-groups", broker, "--describe", "--state", "--group", group)[1].split()[2] for group in GROUPS}
    assert coordinators == {"(1)", "(2)", "(3)"}, "the groups are those of all brokers"


@pytest.mark.parametrize("number", range(3))
def test_offsets_are_those_of_the_leaders(cluster: list[str], number: int) -> None:
    found = run("get-offsets", cluster[number], "--topic", "orders")
    assert found == [f"orders:{partition}:{partition + 1}" for partition in range(PARTITIONS)]


@pytest.mark.parametrize("number", range(3))
def test_the_settings_of_a_broker_are_its_own(cluster: list[str], number: int) -> None:
    for node_id, address in enumerate(cluster, start=1):
        lines = run("configs", cluster[number], "--describe", "--all", "--entity-type", "brokers", "--entity-name", str(node_id))
        assert any(line.startswith(f"  node.id={node_id} ") for line in lines), (address, lines)
    changed = "log.cleaner.threads=2"
    for kind in (["--add-config", changed], ["--delete-config", "log.cleaner.threads"]):
        run("configs", cluster[number], "--alter", "--entity-type", "brokers", "--entity-name", str((number + 1) % 3 + 1), *kind)


def test_offsets_are_reset_and_deleted_by_the_coordinators(cluster: list[str]) -> None:
    for number, group in enumerate(GROUPS):
        broker = cluster[number % 3]
        run("consumer-groups", broker, "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
        assert {row[0] for row in offsets(cluster[(number + 1) % 3], group).values()} == set(range(1, PARTITIONS + 1))
        run("consumer-groups", broker, "--delete-offsets", "--group", group, "--topic", "orders:0,1,2,3,4")
        assert offsets(cluster[(number + 2) % 3], group) == {5: (6, 6, 0)}
    run("consumer-groups", cluster[0], "--delete", *(word for group in GROUPS for word in ("--group", group)))
    assert run("consumer-groups", cluster[1], "--list") == []


def test_replicas_on_brokers_that_do_not_exist_are_refused(cluster: list[str]) -> None:
    for words, reason in (
        (("--replica-assignment", "1:9"), "includes broker 9, but no such broker is registered."),
        (
            ("--replication-factor", "4"),
            "factor of 4 cannot be reached because only 3 broker(s) are registered.",
        ),
    ):
        ran = run_command("kafka-topics", "--bootstrap-server", cluster[1], "--create", "--topic", "refused", *words)
        assert ran.code == 1
        assert reason in ran.out, ran
    assert run("topics", cluster[2], "--list") == ["__consumer_offsets", "orders"]


def test_a_live_broker_is_not_unregistered(cluster: list[str]) -> None:
    ran = run_command("kafka-cluster", "unregister", "--bootstrap-server", cluster[0], "--id", "3")
    assert (ran.code, ran.out) == (1, "")
    assert "InvalidRequestException: Broker 3 is live: stop it before it is unregistered" in ran.err


def test_leaders_are_elected_on_request(brokers: SeveralBrokers, cluster: list[str], tmp_path: Path) -> None:
    elect = ("kafka-leader-election", "--bootstrap-server", cluster[2], "--election-type")
    ran = run_command(*elect, "preferred", "--topic", "orders", "--partition", "0")
    assert (ran.code, ran.out) == (0, "Valid replica already elected for partitions orders-0\n")
    ran = run_command(*elect, "unclean", "--topic", "orders", "--partition", "9")
    assert ran.code == 1
    assert ran.out == (
        "Error completing leader election (UNCLEAN) for partition: orders-9: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: No such partition as orders-9\n"
    )
    assert "1 replica(s) could not be elected" in ran.err

    (first, *_) = replicas = [int(line.split("Replicas: ")[1].split(",")[0]) for line in described(cluster[0])]
    brokers.kill(first)  # which is started again, and does not lead at once
    until(lambda: all("Isr: " in line and line.count(",") == 2 for line in described(cluster[first % 3])), "in sync", TIMEOUT_S)
    moved = [number for number, leader in enumerate(replicas) if leader == first]
    file = tmp_path / "elect.json"
    file.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": number} for number in moved]}))
    ran = run_command(*elect, "preferred", "--path-to-json-file", str(file))
    names = ", ".join(f"orders-{number}" for number in moved)
    assert (ran.code, ran.out) == (0, f"Successfully completed leader election (PREFERRED) for partitions {names}\n"), ran
    assert all(f"Leader: {leader}" in line for leader, line in zip(replicas, described(cluster[2]), strict=True))


def described(broker: str) -> list[str]:
    return [line for line in run("topics", broker, "--describe", "--topic", "orders") if "Partition: " in line]
