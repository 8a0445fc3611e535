"""Requests to create or delete very many topics, or one with very many assignments, give the loop back and are refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.wanted_topics import CONFIGS_MAX, REPLICAS_MAX, apart, configs_of, replicas_of
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.slicing import run_through
from testing.scenes.api.whole import Whole
from testing.turns import run_watched

MANY = 12_000
NAMES = [f"t{number}" for number in range(MANY)]


def topic(name: str, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, **{"num_partitions": 1, "replication_factor": 1, **fields})


def assignments(count: int) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(partition_index=number, broker_ids=[1]) for number in range(count)]


REQUESTS: dict[str, tuple[Any, int, ErrorCode, int]] = {
    "many topics": (CreateTopicsRequest(topics=[*map(topic, NAMES)]), 4, ErrorCode.POLICY_VIOLATION, MANY),
    "the same topic": (CreateTopicsRequest(topics=[topic("t")] * MANY), 4, ErrorCode.INVALID_REQUEST, 1),
    "one topic": (
        CreateTopicsRequest(topics=[topic("t", num_partitions=-1, replication_factor=-1, assignments=assignments(MANY))]),
        4,
        ErrorCode.POLICY_VIOLATION,
        1,
    ),
    "settings": (
        CreateTopicsRequest(topics=[topic("t", configs=[CreatableTopicConfig(name=name, value="1") for name in NAMES])]),
        4,
        ErrorCode.INVALID_CONFIG,
        1,
    ),
    "more partitions": (
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="t", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])] * (MANY // 4)),
                *(CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES),
            ]
        ),
        1,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        MANY + 1,
    ),
    "deletion": (DeleteTopicsRequest(topic_names=NAMES), 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, MANY),
}


@pytest.mark.judges_time
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("is_enabled", [True, False])
def test_very_many_elements_give_the_loop_back(tmp_path: Path, name: str, is_enabled: bool) -> None:
    request, version, code, count = REQUESTS[name]
    if not is_enabled:
        if name != "deletion":
            pytest.skip("only deletion can be switched off")
        code = ErrorCode.TOPIC_DELETION_DISABLED
    found: Counter[int] = Counter()

    async def ask() -> None:
        whole = await Whole(tmp_path, delete_topic_enable=is_enabled).start()
        sent = whole.send(request, version)
        response = whole.read(await sent if isinstance(sent, asyncio.Future) else sent, request, version)
        results = next(getattr(response, field) for field in ("topics", "responses", "results") if hasattr(response, field))
        found.update(one.error_code for one in results)

    turns = run_watched(ask)
    assert turns.long_texts() == []
    assert found == {code: count}


def test_names_that_occur_once_are_found_in_steps() -> None:
    topics = [topic(f"t{number % 2_999}") for number in range(3_000)]
    steps = apart(topics)
    assert sum(1 for _ in steps) >= 3 * 2
    once, again = run_through(apart(topics))
    assert ([one.name for one in once], again) == ([f"t{number}" for number in range(1, 2_999)], ["t0"])


def test_of_settings_and_replicas_that_cannot_be_good_enough_is_made_to_refuse_them() -> None:
    configs = [CreatableTopicConfig(name=name, value=None) for name in ("a", "b", "a")]
    assert run_through(configs_of(configs)) == {"a": None, "b": None}
    many = [CreatableTopicConfig(name=name, value="1") for name in NAMES]
    assert len(run_through(configs_of(many))) == CONFIGS_MAX + 1
    assert len(replicas_of(CreatableReplicaAssignment(partition_index=0, broker_ids=[1] * MANY))) == REPLICAS_MAX
