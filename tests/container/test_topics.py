"""The topics that a variable asks for."""

from __future__ import annotations

import pytest

from pybroker.config.setting import ConfigError
from pybroker.container.topics import wanted_topics


def read(text: str, separator: str = "", variable: str = "KAFKA_CREATE_TOPICS") -> list[tuple[str, int, dict[str, str | None]]]:
    topics = wanted_topics({variable: text}, separator)
    return [(topic.name, topic.partition_count, dict(topic.configs)) for _, topic in topics.values()]


COMPACT = {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("a", [("a", -1, {})]),
        ("a:3", [("a", 3, {})]),
        ("a:1:1,b:2:1:compact", [("a", 1, {}), ("b", 2, COMPACT)]),
        (" a:1:1 ,\n b:2:1 ,\n", [("a", 1, {}), ("b", 2, {})]),
        ("a:1:1:compact,delete,b:1", [("a", 1, {"cleanup.policy": "compact,delete"}), ("b", 1, {})]),
        ("a:1:1:delete, compact\nb", [("a", 1, {"cleanup.policy": "delete,compact"}), ("b", -1, {})]),
        ("a:3:retention.ms=60000:segment.ms=1,b", [("a", 3, {"retention.ms": "60000", "segment.ms": "1"}), ("b", -1, {})]),
        (
            "a:1:1:compact,delete:retention.ms=5,b",
            [("a", 1, {"retention.ms": "5", "cleanup.policy": "compact,delete"}), ("b", -1, {})],
        ),
        ("a::1:compact", [("a", -1, COMPACT)]),
        (
            "a:1:1:delete --config=retention.ms=5,b",
            [("a", 1, {"retention.ms": "5", "cleanup.policy": "delete"}), ("b", -1, {})],
        ),
        (
            "a:1:1:compact,delete --config retention.ms=5 --config=segment.ms=1",
            [("a", 1, {"retention.ms": "5", "segment.ms": "1", "cleanup.policy": "compact,delete"})],
        ),
        (" ,\n", []),
    ],
)
def test_entries(text: str, topics: list[tuple[str, int, dict[str, str | None]]]) -> None:
    assert read(text) == topics


def test_a_separator_of_the_users() -> None:
    assert [name for name, *_ in read("a:1:1;b:1:1", ";")] == ["a", "b"]
    assert [name for name, *_ in read("a:1:1\nb:1:1", "$'\\n'")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a b:1", "KAFKA_CREATE_TOPICS=a b:1: is not name:partitions:replicas:policy"),
        ("a:x", "'x' is not a number of partitions"),
        ("a:0", "'0' is not a number of partitions"),
        ("a:1:x", "'x' is not a number of replicas"),
        ("a:1:3", "3 replicas need 3 brokers"),
        ("a:1:1:compact:more", "is not name:partitions:replicas:policy"),
        ("a,b,a:2", "KAFKA_CREATE_TOPICS=a:2: asks for the topic a a second time"),
        ("__consumer_offsets:1", "the broker creates its internal topic __consumer_offsets itself"),
        ("a:1:1:delete --force", "is not name:partitions:replicas:policy"),
        ("a:1:1:delete --force=true", "'delete --force' is not the name of a setting"),
        ("a:1:1:min.insync.replicas=2", "2 in-sync replicas need 2 brokers"),
    ],
)
def test_what_cannot_be_names_the_entry(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match="KAFKA_CREATE_TOPICS=") as caught:
        read(text)
    assert reason in str(caught.value)


def test_two_variables_are_one_list() -> None:
    topics = wanted_topics({"PYBROKER_TOPICS": "a", "KAFKA_CREATE_TOPICS": "b"})
    assert [variable for variable, _ in topics.values()] == ["PYBROKER_TOPICS", "KAFKA_CREATE_TOPICS"]
    with pytest.raises(ConfigError, match="KAFKA_CREATE_TOPICS=a: asks for the topic a a second time"):
        wanted_topics({"PYBROKER_TOPICS": "a", "KAFKA_CREATE_TOPICS": "a"})


def test_several_replicas_are_for_several_brokers_or_one_that_accepts_any_number() -> None:
    topics = wanted_topics({"PYBROKER_TOPICS": "a:6:3:min.insync.replicas=2,b"}, takes_replicas=True)
    assert [(topic.replication_factor, dict(topic.configs)) for _, topic in topics.values()] == [
        (3, {"min.insync.replicas": "2"}),
        (-1, {}),
    ]
