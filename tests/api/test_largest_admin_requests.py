"""The largest requests that an administrator may send hold the loop for less than 50 ms, and each element has its result."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from pybroker.protocol import codec
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from pybroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from testing.scenes.api.codes import codes_in
from testing.scenes.api.whole import Whole, frame_of, settled
from testing.turns import run_watched

LIMIT_MS: Final = 50
ELEMENTS: Final = 25_000 - 8
NAMES: Final = [f"t{number}" for number in range(ELEMENTS)]
TOPIC: Final = 2


def topic(name: str, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, **{"num_partitions": 1, "replication_factor": 1, **fields})


def creation(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics))


def assigned(count: int) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=number, broker_ids=[1]) for number in range(count)]
    return topic("t", num_partitions=-1, replication_factor=-1, assignments=assignments)


def setting(name: str) -> AlterConfigsResource:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    return AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])


REQUESTS: Final[dict[str, tuple[Any, int, dict[ErrorCode, int]]]] = {
    "topics": (creation(*map(topic, NAMES)), 4, {ErrorCode.POLICY_VIOLATION: ELEMENTS}),
    "one topic with partitions": (creation(assigned(ELEMENTS // 2)), 4, {ErrorCode.POLICY_VIOLATION: 1}),
    "one topic with settings": (
        creation(topic("t", configs=[CreatableTopicConfig(name=name, value="1") for name in NAMES[1:]])),
        4,
        {ErrorCode.INVALID_CONFIG: 1},
    ),
    "more partitions": (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=3, assignments=None) for name in NAMES]),
        1,
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ELEMENTS},
    ),
    "deletion": (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in NAMES]),
        6,
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ELEMENTS},
    ),
    "settings of topics": (
        IncrementalAlterConfigsRequest(resources=list(map(setting, NAMES[: ELEMENTS // 2]))),
        1,
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ELEMENTS // 2},
    ),
    "a page": (
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in NAMES]),
        0,
        {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ELEMENTS},
    ),
}
"""The request with its version, and how many elements get which code."""


def handled(folder: Path, request: Any, version: int) -> tuple[Counter[int], list[str]]:
    """Return how many elements get which code, and the long turns."""
    found: Counter[int] = Counter()

    async def ask() -> None:
        whole = await Whole(folder).start()
        frame = frame_of(request, version)
        await asyncio.sleep(0)  # what the client does is no part of the turn
        sent = await settled(whole.dispatcher.handle(whole.connection, frame))
        await asyncio.sleep(0)
        found.update(codes_in(whole.read(sent, request, version)))

    return found, run_watched(ask, limit_ms=LIMIT_MS).long_texts("<locals>.ask held")


needs_native = pytest.mark.skipif(not codec.IS_NATIVE, reason="to decode and encode such messages in Python takes longer")


@needs_native
@pytest.mark.judges_time
@pytest.mark.parametrize("name", REQUESTS)
def test_the_loop_is_held_for_less_than_50_ms(tmp_path: Path, name: str) -> None:
    request, version, expected = REQUESTS[name]
    assert handled(tmp_path, request, version) == (expected, [])
