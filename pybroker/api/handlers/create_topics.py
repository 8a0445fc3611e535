"""CreateTopics (key 19), v0-7: create topics, each on its own; all that can be created are created together.

Behaviour
    The broker responds when its logs exist and the leaders know their partitions (`new_partitions`). Names, numbers, assignments
    and settings are checked as Kafka's controller does, with its codes. A name that the request has twice is INVALID_REQUEST,
    once in the response. More than 10,000 partitions in one request are POLICY_VIOLATION.
Versions
    v1 validate only, error texts. v2 throttle time. v4 -1 for the broker's default numbers (accepted in every version). v5
    flexible, numbers and settings in the response (KIP-525). v7 topic id.
Not done
    create.topic.policy.class.name.
Source: ControllerApis.createTopics, ReplicationControlManager.createTopics; KIP-4, KIP-464, KIP-525.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING

from pybroker.api.configs.described_settings import BrokerLayers
from pybroker.api.new_partitions import leaders_know
from pybroker.metadata.new_topic import EXCESSIVE, PARTITIONS_PER_REQUEST_MAX, NewTopic
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.controller import TopicOutcome


async def handle(broker: Services, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:  # noqa: ARG001
    """Create the topics that can be created, then respond."""
    counts = Counter(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if counts[topic.name] == 1]
    if len(topics) > PARTITIONS_PER_REQUEST_MAX:  # each has a partition
        results = [_refused(topic.name, ErrorCode.POLICY_VIOLATION, EXCESSIVE) for topic in topics]
    else:
        wanted = [_new_topic(topic) for topic in topics]
        outcomes = await broker.controller.create_topics(wanted, validate_only=request.validate_only)
        if not request.validate_only:
            await leaders_know(broker, [one.topic for one in outcomes if one.topic is not None], request.timeout_ms)
        configs = functools.cache(
            lambda overrides: _configs(broker, dict(overrides))
        )  # topics of one request often have the same
        results = [_result(one, outcome, configs) for one, outcome in zip(wanted, outcomes, strict=True)]
    again = [name for name, count in counts.items() if count > 1]
    results += [_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name in again]
    return CreateTopicsResponse(topics=results)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((one.partition_index, tuple(map(BrokerId, one.broker_ids))) for one in topic.assignments),
        configs={config.name: config.value for config in topic.configs},
    )


def _result(
    wanted: NewTopic, outcome: TopicOutcome, configs: Callable[[tuple[tuple[str, str], ...]], list[CreatableTopicConfigs]]
) -> CreatableTopicResult:
    name = wanted.name
    error, topic = outcome.error, outcome.topic
    if error is not None:
        return _refused(name, error.code, error.message)
    assert topic is not None, "an outcome is a topic or an error"
    return CreatableTopicResult(
        name=name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs(tuple(topic.configs.items())),
    )


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])


def _configs(broker: Services, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(name=config.name, value=config.value, config_source=config.source)
        for config in BrokerLayers(broker.controller).topic_settings(overrides)
    ]
