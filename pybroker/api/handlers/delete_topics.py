"""DeleteTopics (key 20), v0-6: delete topics by name or by id; all that can be deleted are deleted together.

Behaviour
    When the response is sent, the topics are gone for every client, and a topic of the same name can be created; the files are
    removed after file.delete.delay.ms. With delete.topic.enable=false every topic is refused. Faults of the request (a topic with
    neither name nor id or with both, a name or an id that occurs twice, an id whose topic is also named) are INVALID_REQUEST for
    the topic in question.
Versions
    v1 throttle time. v3 TOPIC_DELETION_DISABLED, INVALID_REQUEST before. v4 flexible. v5 error texts. v6 topic ids.
Not done
    Nothing.
Source: ControllerApis.deleteTopics; KIP-4, KIP-516.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pybroker.model import ZERO_TOPIC_ID, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.controller import TopicOutcome


async def handle(broker: Services, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete the topics that can be deleted, then respond."""
    if not broker.config.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if context.api_version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        text = ErrorCode.TOPIC_DELETION_DISABLED.message
        refused = [_refused(name, ZERO_TOPIC_ID, code, text) for name in request.topic_names]
        refused += [_refused(topic.name, topic.topic_id, code, text) for topic in request.topics]
        return DeleteTopicsResponse(responses=refused)
    found, responses = _find(broker, request)
    outcomes = await broker.controller.delete_topics(list(found))
    responses += [_result(*one, outcome) for one, outcome in zip(found.items(), outcomes, strict=True)]
    return DeleteTopicsResponse(responses=responses)


def _find(broker: Services, request: DeleteTopicsRequest) -> tuple[dict[TopicId, str], list[DeletableTopicResult]]:
    """Find the topics to delete, and make responses for those that cannot be deleted."""
    image = broker.controller.image
    responses: list[DeletableTopicResult] = []
    names = Counter(request.topic_names)
    ids: Counter[TopicId] = Counter()
    for topic in request.topics:
        has_id = topic.topic_id != ZERO_TOPIC_ID
        if topic.name is not None and has_id:
            responses.append(_invalid(topic.name, topic.topic_id, "You may not specify both topic name and topic id."))
        elif topic.name is not None:
            names[topic.name] += 1
        elif has_id:
            ids[TopicId(topic.topic_id)] += 1
        else:
            responses.append(_invalid(None, ZERO_TOPIC_ID, "Neither topic name nor id were specified."))
    found: dict[TopicId, str] = {}
    for topic_id, times in ids.items():
        if times > 1:
            responses.append(_invalid(None, topic_id, "Duplicate topic id."))
        elif (known := image.topics_by_id.get(topic_id)) is None:
            responses.append(_refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            found[topic_id] = known.name
    for name, times in names.items():
        known = image.topics.get(name)
        if times > 1:
            responses.append(_invalid(name, ZERO_TOPIC_ID, "Duplicate topic name."))
        elif known is None:
            responses.append(_refused(name, ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif known.topic_id in ids:
            found.pop(known.topic_id, None)
            responses.append(_invalid(name, known.topic_id, "The provided topic name maps to an ID that was already supplied."))
        else:
            found[known.topic_id] = name
    return found, responses


def _result(topic_id: TopicId, name: str, outcome: TopicOutcome) -> DeletableTopicResult:
    if outcome.error is not None:  # also when another request has deleted it since the lookup
        return _refused(name, topic_id, outcome.error.code, outcome.error.message)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NONE)


def _invalid(name: str | None, topic_id: bytes, text: str) -> DeletableTopicResult:
    return _refused(name, topic_id, ErrorCode.INVALID_REQUEST, text)


def _refused(name: str | None, topic_id: bytes, code: ErrorCode, text: str | None = None) -> DeletableTopicResult:
    message = code.message if text is None else text
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
