"""The names of topics in the target, and how they are created."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pybroker.model import ProducerEpoch, ProducerId
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.outgoing import Producer
from pybroker.spark.mirror.state import Identity, Pair
from pybroker.spark.mirror.topics import check_pair, chosen_topics, prepared, target_names
from pybroker.spark.wire.client import LATEST, Topic, TopicSetting, WireClient

A, B = Topic("a", b"A" * 16, (1, 1)), Topic("b", b"B" * 16, (1,))
BOTH = {"a": A, "b": B}
NEW = Identity("one", "two", Producer(ProducerId(7), ProducerEpoch(0)))
KEPT = {"message.timestamp.type": TopicSetting("CreateTime", False), "compression.type": TopicSetting("producer", False)}


class TopicsOnlyCluster:
    """A fake cluster that knows only topics and settings."""

    bootstrap = "here:1"

    def __init__(self, topics: dict[str, Topic], settings: dict[str, TopicSetting], records: int = 0) -> None:
        self.there, self._settings, self.records = topics, settings, records
        self.made: dict[str, tuple[int, dict[str, str]]] = {}
        self.grown: dict[str, int] = {}

    def topics(self, names: Any = None) -> dict[str, Topic]:
        return {name: topic for name, topic in self.there.items() if names is None or name in names}

    def topic(self, name: str) -> Topic:
        return self.there[name]

    def settings(self, name: str) -> dict[str, TopicSetting]:
        made = {key: TopicSetting(value, True) for key, value in self.made.get(name, (0, {}))[1].items()}
        return KEPT | self._settings | made

    def list_offset(self, topic: str, partition: int, timestamp: int) -> int:
        return self.records if timestamp == LATEST else 0

    def create_topic(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        self.made[name] = partitions, settings
        self.there[name] = Topic(name, b"N" * 16, (1,) * partitions)

    def create_partitions(self, name: str, count: int) -> None:
        self.grown[name] = count


def prepare(
    source: TopicsOnlyCluster, target: TopicsOnlyCluster, identity: Identity = NEW, *, copies_retention: bool = False
) -> tuple[Pair, int]:
    one, other = cast("WireClient", source), cast("WireClient", target)
    return prepared(one, other, identity, A, "x", copies_retention=copies_retention)


def test_names() -> None:
    assert target_names(BOTH, "", {}) == {"a": "a", "b": "b"}
    assert target_names(BOTH, "copy.", {"b": "other"}) == {"a": "copy.a", "b": "other"}
    with pytest.raises(PipelineError, match="topics a and b would both go to a"):
        target_names(BOTH, "", {"b": "a"})
    with pytest.raises(PipelineError, match="topic c is renamed but not mirrored"):
        target_names(BOTH, "", {"c": "a"})


def test_topics_by_name_and_pattern() -> None:
    source = cast("WireClient", TopicsOnlyCluster(BOTH, {}))
    assert chosen_topics(source, ("b",), None) == {"b": B}
    assert chosen_topics(source, (), "[ab]") == BOTH
    assert chosen_topics(source, (), "c") == {}
    with pytest.raises(PipelineError, match="no topic c, d at here:1"):
        chosen_topics(source, ("c", "a", "d"), None)
    with pytest.raises(PipelineError, match=r"'\(' is not a regular expression"):
        chosen_topics(source, (), "(")


def test_a_topic_that_is_missing_is_created_like_the_source() -> None:
    settings = {
        "cleanup.policy": TopicSetting("compact", True),
        "retention.ms": TopicSetting("1000", True),
        "segment.bytes": TopicSetting("20000", True),
        "min.cleanable.dirty.ratio": TopicSetting("0.5", False),
        "max.message.bytes": TopicSetting("5000000", False),
    }
    target = TopicsOnlyCluster({}, {})
    pair, size_max = prepare(TopicsOnlyCluster(BOTH, settings), target)
    assert (pair, size_max) == (Pair("x", A.topic_id.hex(), (b"N" * 16).hex()), 5_000_000)
    partitions, made = target.made["x"]
    assert partitions == 2
    assert {name: made.get(name) for name in (*settings, "retention.bytes", "compression.type", "message.timestamp.type")} == {
        "cleanup.policy": "compact",
        "retention.ms": "-1",
        "segment.bytes": None,
        "min.cleanable.dirty.ratio": None,
        "max.message.bytes": "5000000",
        "retention.bytes": "-1",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
    }
    target = TopicsOnlyCluster({}, {})
    prepare(TopicsOnlyCluster(BOTH, settings), target, copies_retention=True)
    made = target.made["x"][1]
    assert (made["retention.ms"], made.get("retention.bytes")) == ("1000", None)


def test_a_topic_that_exists_is_checked() -> None:
    source, there = TopicsOnlyCluster(BOTH, {}), {"x": Topic("x", b"X" * 16, (1,))}
    target = TopicsOnlyCluster(there, {"max.message.bytes": TopicSetting("3000", True)})
    assert prepare(source, target)[1] == 3000
    assert (target.made, target.grown) == ({}, {"x": 2})
    with pytest.raises(PipelineError, match="x-0 already has 4 records that this mirror did not write"):
        prepare(source, TopicsOnlyCluster(there, {}, records=4))
    for name, value in (("message.timestamp.type", "LogAppendTime"), ("compression.type", "gzip")):
        with pytest.raises(PipelineError, match=f"topic x at here:1 would not keep .*: its {name} is not "):
            prepare(source, TopicsOnlyCluster(there, {name: TopicSetting(value, True)}))


def test_a_topic_of_earlier_runs_must_be_the_same() -> None:
    pair = Pair("x", A.topic_id.hex(), (b"X" * 16).hex())
    known = Identity("one", "two", Producer(ProducerId(7), ProducerEpoch(0)), {"a": pair})
    source = TopicsOnlyCluster(BOTH, {})
    settings = {"max.message.bytes": TopicSetting("3000", True)}
    assert prepare(source, TopicsOnlyCluster({"x": Topic("x", b"X" * 16, (1, 1, 1))}, settings, records=9), known)[0] == pair
    with pytest.raises(PipelineError, match="topic x at here:1 was deleted and created again since the mirror wrote to it"):
        prepare(source, TopicsOnlyCluster({"x": Topic("x", b"Y" * 16, (1, 1))}, {}), known)
    with pytest.raises(PipelineError, match="topic x at here:1 is gone"):
        prepare(source, TopicsOnlyCluster({}, {}), known)
    check_pair("a", A, pair, "x")
    with pytest.raises(PipelineError, match="topic a already goes to x, not to y"):
        check_pair("a", A, pair, "y")
    with pytest.raises(PipelineError, match="topic a was deleted and created again since it was mirrored"):
        check_pair("a", Topic("a", b"Z" * 16, (1,)), pair, "x")
