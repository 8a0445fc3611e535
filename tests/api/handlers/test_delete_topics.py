"""DeleteTopics by name in every version, by id in v6, and every wrong request."""

from __future__ import annotations

import pytest

from pybroker.api.handlers import delete_topics
from pybroker.model import ZERO_TOPIC_ID
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.DELETE_TOPICS)[1] + 1)
UNKNOWN, WRONG = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST


def by_name(version: int, *names: str) -> DeleteTopicsRequest:
    if version >= 6:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=1)
    return DeleteTopicsRequest(topic_names=[*names], timeout_ms=1)


@pytest.mark.parametrize("version", VERSIONS)
async def test_by_name_in_every_version(version: int) -> None:
    cluster = await ClusterScene().start()
    topic_id = await cluster.create("a")
    await cluster.create("b")
    await cluster.create("keep")
    response = await cluster.ask(delete_topics.handle, version, by_name(version, "a", "missing", "keep", "b", "keep"))
    assert {t.name: t.error_code for t in response.responses} == {"a": 0, "b": 0, "missing": UNKNOWN, "keep": WRONG}
    assert cluster.controller.image.topics.keys() == {"keep"}
    responses = {t.name: t for t in response.responses}
    assert responses["a"].topic_id == (topic_id if version >= 6 else ZERO_TOPIC_ID)
    assert responses["a"].error_message is None
    assert responses["keep"].error_message == ("Duplicate topic name." if version >= 5 else None)
    assert responses["missing"].error_message == (UNKNOWN.message if version >= 5 else None)


async def test_by_id_and_all_that_can_be_wrong_with_ids() -> None:
    cluster = await ClusterScene().start()
    made = {name: await cluster.create(name) for name in ["id", "twice", "both", "clash", "name"]}
    states = [
        DeleteTopicState(topic_id=made["id"]),
        DeleteTopicState(topic_id=made["twice"]),
        DeleteTopicState(topic_id=made["twice"]),
        DeleteTopicState(name="both", topic_id=made["both"]),
        DeleteTopicState(topic_id=made["clash"]),
        DeleteTopicState(name="clash"),
        DeleteTopicState(name="name"),
        DeleteTopicState(topic_id=b"u" * 16),
        DeleteTopicState(),
    ]
    response = await cluster.ask(delete_topics.handle, 6, DeleteTopicsRequest(topics=states, timeout_ms=1))
    assert {(t.name, t.topic_id): (t.error_code, t.error_message) for t in response.responses} == {
        ("id", made["id"]): (0, None),
        (None, made["twice"]): (WRONG, "Duplicate topic id."),
        ("both", made["both"]): (WRONG, "You may not specify both topic name and topic id."),
        ("clash", made["clash"]): (WRONG, "The provided topic name maps to an ID that was already supplied."),
        ("name", made["name"]): (0, None),
        (None, b"u" * 16): (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message),
        (None, ZERO_TOPIC_ID): (WRONG, "Neither topic name nor id were specified."),
    }
    assert cluster.controller.image.topics.keys() == {"twice", "both", "clash"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_deletion_can_be_disabled(version: int) -> None:
    cluster = await ClusterScene(delete_topic_enable=False).start()
    await cluster.create("a")
    (response,) = (await cluster.ask(delete_topics.handle, version, by_name(version, "a"))).responses
    assert response.error_code == (ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else WRONG)
    assert "a" in cluster.controller.image.topics
