"""`pybroker topics`, `records` and `cluster` on a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import commit, invoke, lines, objects, refusal


@pytest.fixture
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread() as broker:
        yield broker


def test_topics_are_created_listed_changed_and_deleted(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert lines(at, "topics", "list") == ["There are no topics: pybroker topics create NAME"]
    assert lines(at, "topics", "create", "a", "b", "-p", "2", "--config", "retention.ms=5") == [
        "Created topic a with 2 partitions",
        "Created topic b with 2 partitions",
    ]
    broker.produce("a", b"1", b"2")
    rows = objects(at, "topics", "list")
    assert [(row["topic"], row["partitions"], row["replicas"], row["records"]) for row in rows] == [
        ("a", 2, 1, 2),
        ("b", 2, 1, 0),
    ]
    assert rows[0]["bytes"] > rows[1]["bytes"] == 0
    assert lines(at, "topics", "list", "b*")[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "SIZE"]
    assert lines(at, "topics", "alter", "a", "-p", "3", "--config", "retention.ms=7") == ["Changed topic a"]
    (described,) = objects(at, "topics", "describe", "a")
    assert described["configs"] == {"retention.ms": "7"}
    assert [(one["partition"], one["leader"], one["end"]) for one in described["of_partitions"]] == [
        (0, 1, 2),
        (1, 1, 0),
        (2, 1, 0),
    ]
    assert "retention.ms=7" in lines(at, "topics", "describe", "a", "b")
    assert lines(at, "topics", "alter", "a", "--unset", "retention.ms") == ["Changed topic a"]
    assert lines(at, "topics", "delete", "--yes", "?") == ["Deleted topic a", "Deleted topic b"]
    assert objects(at, "topics", "list") == []


def test_what_the_broker_refuses_is_a_line_with_kafkas_name_of_the_error(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    lines(at, "topics", "create", "a")
    assert refusal(at, "topics", "create", "a").startswith("topic a: TOPIC_ALREADY_EXISTS: ")
    assert lines(at, "topics", "create", "a", "--if-not-exists") == ["Topic a exists"]
    assert refusal(at, "topics", "describe", "b") == "topic b: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic"
    assert refusal(at, "topics", "delete", "b", "--yes").startswith("topic b: UNKNOWN_TOPIC_OR_PARTITION")
    assert lines(at, "topics", "delete", "b", "--yes", "--if-exists") == []
    assert refusal(at, "topics", "create", "c", "-r", "2").startswith("topic c: INVALID_REPLICATION_FACTOR: ")
    assert refusal(at, "topics", "alter", "a", "-p", "1").startswith("topic a: INVALID_PARTITIONS: ")
    assert "Add --yes" in refusal(at, "topics", "delete", "a", code=2)
    assert refusal(at, "topics", "lst", code=2) == "No such command 'lst'. Did you mean 'list'?"


def test_no_broker_is_one_line_at_once() -> None:
    for words in ("topics list", "produce a 1", "consume a", "consume a -g g", "copy a --prefix b", "groups list", "status"):
        assert refusal("127.0.0.1:1", *words.split()) == "no broker responds: 127.0.0.1:1: Connection refused"


def test_the_oldest_records_are_deleted(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    lines(at, "topics", "create", "a", "-p", "2")
    broker.produce("a", b"1", b"2", b"3")
    deleted = objects(at, "records", "delete", "a:0", "--before", "2", "--yes")
    assert deleted == [{"topic": "a", "partition": 0, "first": 2}]
    assert [row["records"] for row in objects(at, "topics", "list")] == [1]
    assert [row["first"] for row in objects(at, "records", "delete", "a", "--before", "end", "--yes")] == [3, 0]
    beyond = lines(at, "records", "delete", "a", "--before", "9", "--yes")
    assert beyond[-2:] == [f"Partition {index} ends before offset 9: all its records are deleted." for index in (0, 1)]
    assert "must be end, an offset" in refusal(at, "records", "delete", "a", "--before", "x", "--yes", code=2)
    assert "partitions 0 to 1, not '2'" in refusal(at, "records", "delete", "a:2", "--before", "end", "--yes")


def test_the_cluster_is_shown(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    lines(at, "topics", "create", "a")
    (row,) = objects(at, "cluster", "brokers")
    assert (row["broker"], row["address"], row["is_controller"], row["leads"]) == (1, at, True, 1)
    assert row["software"].startswith("pybroker, like Kafka 4.")
    assert objects(at, "cluster", "listeners")[0]["listeners"].startswith("PLAINTEXT://127.0.0.1:")
    assert lines(at, "cluster", "health") == ["Every partition has a leader, and all replicas are in sync."]
    assert lines(at, "cluster", "brokers")[1].split()[:3] == ["1", "*", at]


def test_status_is_one_screen(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    lines(at, "topics", "create", "a", "-p", "3")
    broker.produce("a", b"1", b"2")
    commit(at, "readers", "a", {0: 1})
    (found,) = objects(at, "status")
    assert {key: found[key] for key in ("brokers", "topics", "records", "under_replicated", "offline", "open_transactions")} == {
        "brokers": [1], "topics": 1, "records": 2, "under_replicated": 0, "offline": 0, "open_transactions": 0,
    }  # fmt: skip
    assert [(one["group"], one["lag"]) for one in found["groups_behind"]] == [("readers", 1)]
    shown = lines(at, "status")
    assert shown[0].startswith("Cluster       ")
    assert "              readers is 1 record behind" in shown
    assert shown[-1] == "Every partition has a leader, and all replicas are in sync."


def test_wait_ends_when_there_is_what_is_waited_for_or_with_code_3(broker: ThreadBroker) -> None:
    at = broker.bootstrap
    assert lines(at, "wait") == ["Ready"]
    late = invoke(at, "wait", "--topic", "a", "--for", "0")
    assert (late.exit_code, late.stderr) == (3, "Error: not ready after 0 s: topic a does not exist\n")
    lines(at, "topics", "create", "a")
    assert lines(at, "wait", "--topic", "a") == ["Ready"]
    broker.produce("a", b"1", b"2")
    commit(at, "readers", "a", {0: 1})
    assert "group readers is 1 record behind" in invoke(at, "wait", "--group", "readers", "--for", "0").stderr
    assert lines(at, "wait", "--group", "readers", "--lag", "1") == ["Ready"]
    assert "brokers are live" in invoke(at, "wait", "--brokers", "2", "--for", "0").stderr
    assert invoke("127.0.0.1:1", "wait", "--for", "0").exit_code == 3
