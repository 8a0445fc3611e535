"""The forms of the request and the response in every version; the controller has the rules."""

from __future__ import annotations

import pytest

from pybroker.api.handlers import create_topics
from pybroker.config.topic_settings import TOPIC_SETTINGS
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.CREATE_TOPICS)[1] + 1)


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_good_and_bad_topics_in_every_version(version: int) -> None:
    cluster = await ClusterScene().start()
    request = CreateTopicsRequest(
        topics=[
            topic("good", 3, retention_ms="5000"),
            topic("..", 3),
            topic("twice"),
            topic("twice", 2),
            topic("defaults", -1, -1),
        ]
    )
    response = await cluster.ask(create_topics.handle, version, request)
    good, bad, defaults, twice = response.topics
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("good", 0),
        ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("defaults", 0),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    assert cluster.controller.image.topics.keys() == {"good", "defaults"}
    texts = ("Topic name is invalid: '..' is not allowed", "Duplicate topic name.")
    assert (bad.error_message, twice.error_message) == (texts if version >= 1 else ("", ""))
    created = cluster.controller.image.topics["good"]
    assert good.topic_id == (created.topic_id if version >= 7 else ZERO_TOPIC_ID)
    assert (good.num_partitions, good.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))
    assert (bad.num_partitions, bad.replication_factor, defaults.topic_config_error_code) == (-1, -1, 0)
    assert good.error_message is None or version < 1


@pytest.mark.parametrize("version", range(5, VERSIONS.stop))
async def test_the_settings_in_force_are_returned_with_their_source(version: int) -> None:
    cluster = await ClusterScene(log_retention_ms=777, origins={"log.retention.ms": "server.properties"}).start()
    request = CreateTopicsRequest(topics=[topic("t", segment_ms="5000", cleanup_policy="compact,delete")])
    (response,) = (await cluster.ask(create_topics.handle, version, request)).topics
    assert response.configs is not None
    configs = {config.name: (config.value, config.config_source) for config in response.configs}
    assert configs.keys() == TOPIC_SETTINGS.keys()
    assert configs["segment.ms"] == ("5000", 1)
    assert configs["cleanup.policy"] == ("compact,delete", 1)
    assert configs["retention.ms"] == ("777", 4)
    assert configs["compression.type"] == ("producer", 5)
    assert configs["preallocate"] == ("false", 5)
    assert not any(config.read_only or config.is_sensitive for config in response.configs)


@pytest.mark.parametrize("version", range(1, VERSIONS.stop))
async def test_validate_only(version: int) -> None:
    cluster = await ClusterScene().start()
    request = CreateTopicsRequest(topics=[topic("t"), topic("u", 0)], validate_only=True)
    response = await cluster.ask(create_topics.handle, version, request)
    assert [t.error_code for t in response.topics] == [0, ErrorCode.INVALID_PARTITIONS]
    assert not cluster.controller.image.topics


@pytest.mark.parametrize("version", VERSIONS)
async def test_manual_assignments_and_null_settings(version: int) -> None:
    cluster = await ClusterScene().start()
    manual, wrong = topic("manual", -1, -1), topic("wrong", -1, -1)
    manual.assignments = [CreatableReplicaAssignment(partition_index=p, broker_ids=[1]) for p in (1, 0)]
    wrong.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[7])]
    request = CreateTopicsRequest(topics=[manual, wrong, topic("null", retention_ms=None), topic("what", what="1")])
    response = await cluster.ask(create_topics.handle, version, request)
    assert [t.error_code for t in response.topics] == [
        0,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_CONFIG,
    ]
    assert [p.replicas for p in cluster.controller.image.topics["manual"].partitions] == [(1,), (1,)]
