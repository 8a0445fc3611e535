"""kafka-topics without a broker: their command lines, what is chosen, what is printed."""

from __future__ import annotations

import pytest

from pybroker.protocol.messages.describe_configs import DescribeConfigsResourceResult
from pybroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from pybroker.tools import topics
from pybroker.tools.errors import CommandError
from pybroker.tools.options import parse
from pybroker.tools.topics import TopicError, wanted
from pybroker.tools.topics_admin import assignment, described, new_configs

AT = ["--bootstrap-server", "localhost:1"]
TOPICS = [("orders", False), ("other", False), ("__consumer_offsets", True)]


@pytest.mark.parametrize(
    ("expression", "is_internal_left_out", "names"),
    [
        (None, False, ["__consumer_offsets", "orders", "other"]),
        (None, True, ["orders", "other"]),
        ("o.*", False, ["orders", "other"]),
        ("order", False, []),
        ("orders, other", False, ["orders", "other"]),
        ('"orders"', False, ["orders"]),
        (".*", True, ["orders", "other"]),
    ],
)
def test_topics_are_chosen(expression: str | None, is_internal_left_out: bool, names: list[str]) -> None:
    assert wanted(TOPICS, expression, is_internal_left_out=is_internal_left_out) == names


def test_a_wrong_expression() -> None:
    with pytest.raises(TopicError, match=r"^\(x is an invalid regex.$"):
        wanted(TOPICS, "(x", is_internal_left_out=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--topic t", "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        ("--list --create", "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
        ("--create", 'Missing required argument "[topic]"'),
        ("--alter --topic t", 'Missing required argument "[partitions]"'),
        ("--list --partitions 3", 'Option "[partitions]" can\'t be used with option "[list]"'),
        ("--delete --topic t --if-not-exists", 'Option "[if-not-exists]" can\'t be used with option "[delete]"'),
        ("--create --topic t --partitions 3 --replica-assignment 1",
         'Option "[replica-assignment]" can\'t be used with option "[partitions]"'),
        ("--describe --if-exists", "--topic or --topic-id is required to describe a topic"),
    ],
)  # fmt: skip
def test_wrong_command_lines(words: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        topics.main("kafka-topics", [*AT, *words.split()])
    assert (str(raised.value), raised.value.code) == (message, 1)


def test_settings_of_new_topics() -> None:
    assert new_configs(["retention.ms = 5", "cleanup.policy=compact"]) == {"retention.ms": "5", "cleanup.policy": "compact"}
    for wrong in ("retention.ms", "retention.ms=", "a=b=c"):
        with pytest.raises(TopicError, match="all configs to be added must be in the format"):
            new_configs([wrong])


def test_assignments() -> None:
    assert assignment("") == []
    assert assignment("1:2,2:1") == [[1, 2], [2, 1]]
    with pytest.raises(TopicError, match="Partition replica lists may not contain duplicate entries: 1"):
        assignment("1:1")
    with pytest.raises(TopicError, match="Partition 1 has different replication factor"):
        assignment("1:2,1")
    with pytest.raises(TopicError, match="--replica-assignment 1:x: "):
        assignment("1:x")


def topic(leader: int = 1, in_sync: tuple[int, ...] = (1, 2)) -> DescribeTopicPartitionsResponseTopic:
    partition = DescribeTopicPartitionsResponsePartition(
        partition_index=0, leader_id=leader, replica_nodes=[1, 2], isr_nodes=list(in_sync), eligible_leader_replicas=[]
    )
    return DescribeTopicPartitionsResponseTopic(name="orders", topic_id=bytes(16), partitions=[partition])


def lines(*words: str, leader: int = 1, in_sync: tuple[int, ...] = (1, 2)) -> list[str]:
    options = parse("kafka-topics", topics.KINDS, ["--describe", *words])
    held = [
        DescribeConfigsResourceResult(name="min.insync.replicas", value="1", config_source=5),
        DescribeConfigsResourceResult(name="retention.ms", value="7", config_source=1),
    ]
    return list(described(topic(leader, in_sync), held, options, {1, 2}))


HEAD = "Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: retention.ms=7"
PARTITION = "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: N/A"


def test_a_topic_is_described() -> None:
    assert lines() == [HEAD, PARTITION]
    assert lines("--topics-with-overrides") == [HEAD]
    assert lines(leader=-1, in_sync=())[1].split("\t")[3:6] == ["Leader: none", "Replicas: 1,2", "Isr: "]


@pytest.mark.parametrize(
    ("report", "leader", "in_sync", "is_listed"),
    [
        ("--under-replicated-partitions", 1, (1, 2), False),
        ("--under-replicated-partitions", 1, (1,), True),
        ("--unavailable-partitions", 1, (1, 2), False),
        ("--unavailable-partitions", -1, (1, 2), True),
        ("--unavailable-partitions", 9, (1, 2), True),
        ("--under-min-isr-partitions", 1, (1,), False),
        ("--under-min-isr-partitions", 1, (), True),
        ("--at-min-isr-partitions", 1, (1,), True),
        ("--at-min-isr-partitions", 1, (1, 2), False),
    ],
)
def test_reports(report: str, leader: int, in_sync: tuple[int, ...], is_listed: bool) -> None:
    assert len(lines(report, leader=leader, in_sync=in_sync)) == is_listed
