"""Checks requests about topics themselves: whether a client may see, create and delete them.

The name of a topic that a client may not describe is never revealed: a list of all topics leaves it out, and whoever asks for
it by name learns that this name is not allowed, whether or not the topic exists. The id of a topic is no secret, in Kafka
neither.

Source: KafkaApis.handleTopicMetadataRequest, DescribeTopicPartitionsRequestHandler, ControllerApis.createTopics and deleteTopics.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.parts import judged, respond_in_parts, then
from pybroker.api.pieces import with_field
from pybroker.metadata.names import invalid_name_reason, is_internal
from pybroker.model import ZERO_TOPIC_ID, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsResponse, TopicRequest
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic as PageTopic
from pybroker.protocol.messages.metadata import MetadataResponseTopic
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.access.need import Request
    from pybroker.api.parts import Verdict
    from pybroker.protocol.messages.create_topics import CreateTopicsRequest
    from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
    from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
    from pybroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

_TOPIC: Final = ResourceType.TOPIC
_CLUSTER: Final = ResourceType.CLUSTER
_DESCRIBE: Final = AclOperation.DESCRIBE
_CREATE: Final = AclOperation.CREATE
_DELETE: Final = AclOperation.DELETE
_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ID_VERSION: Final = 12


def metadata(request: Request, message: MetadataRequest) -> Any:
    """Respond about the topics that the client may describe; create those that it may create."""
    version, asked = request.context.api_version, message.topics
    if asked is None or (version == 0 and not asked):
        return then(request.plain(message), lambda response: _of_all(request, message, response))
    if version < _ID_VERSION and any(one.name is None or one.topic_id != ZERO_TOPIC_ID for one in asked):
        return request.plain(message)  # which refuses it
    with_ids = [one for one in asked if one.topic_id != ZERO_TOPIC_ID]
    if with_ids:  # then names do not count
        refusal_of: Callable[[Any], MetadataResponseTopic | None] = partial(_refusal_of_id, request)
        asked = with_ids
    else:
        asked = list({topic.name or "": topic for topic in asked}.values())
        refusal_of = _Names(request, message).refusal
    return then(judged(asked, refusal_of), lambda refusals: _respond(request, message, asked, refusals))


def _respond(request: Request, message: MetadataRequest, asked: list[Any], refusals: list[MetadataResponseTopic | None]) -> Any:
    """Respond about the topics without a refusal, and add the refusals of the others."""
    allowed = [one for one, refusal in zip(asked, refusals, strict=True) if refusal is None]
    refused = [refusal for refusal in refusals if refusal is not None]
    if not refused:
        return then(request.plain(message), lambda response: _finished(request, message, response))
    rest = with_field(message, "topics", allowed)

    def joined(response: MetadataResponse) -> MetadataResponse:
        _finished(request, message, response)
        response.topics.extend(refused)
        return response

    if request.context.api_version == 0 and not allowed:  # no topics would be all of them there
        with_none = request.context._replace(api_version=1)
        return then(request.api.handle(request.broker, with_none, rest), joined)
    return then(request.plain(rest), joined)


def _of_all(request: Request, message: MetadataRequest, response: MetadataResponse) -> Any:
    """Leave the topics out that the client may not describe."""
    may, topics = request.asker.may, response.topics

    def seen(allowed: list[bool]) -> MetadataResponse:
        response.topics = [one for one, is_allowed in zip(topics, allowed, strict=True) if is_allowed]
        return _finished(request, message, response)

    return then(judged(topics, lambda one: may(_DESCRIBE, _TOPIC, one.name or "", logs=False)), seen)


def _finished(request: Request, message: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
    """Put the client's own operations into a response, where the request asks for them. Its topics are shared by responses."""
    asker = request.asker
    if message.include_cluster_authorized_operations:
        may_describe = asker.may(_DESCRIBE, _CLUSTER)
        response.cluster_authorized_operations = asker.operations(_CLUSTER) if may_describe else 0
    if message.include_topic_authorized_operations:
        response.topics = [
            one if one.name is None else with_field(one, "topic_authorized_operations", asker.operations(_TOPIC, one.name))
            for one in response.topics
        ]
    return response


def _refusal_of_id(request: Request, one: Any) -> MetadataResponseTopic | None:
    """Return the refusal of a topic's id; None: the handler responds."""
    name = request.broker.controller.image.topic_name(TopicId(one.topic_id))
    if name is None or request.asker.may(_DESCRIBE, _TOPIC, name):
        return None
    return MetadataResponseTopic(error_code=_REFUSED, name=None, topic_id=one.topic_id)


class _Names:
    """The topics that a request names: whether the client may describe them, and create those that do not exist."""

    def __init__(self, request: Request, message: MetadataRequest) -> None:
        self._may = request.asker.may
        self._known = request.broker.controller.image.topics
        self._creates = message.allow_auto_topic_creation and request.broker.config.auto_create_topics_enable
        self._may_create_all: bool | None = None

    def refusal(self, one: Any) -> MetadataResponseTopic | None:
        """Return the refusal of a topic; None: the handler responds."""
        name: str = one.name or ""
        if not self._may(_DESCRIBE, _TOPIC, name):
            return MetadataResponseTopic(error_code=_REFUSED, name=name)
        if self._creates and name not in self._known:
            if self._may_create_all is None:
                self._may_create_all = self._may(_CREATE, _CLUSTER, logs=False)
            if not self._may_create_all and not self._may(_CREATE, _TOPIC, name):
                return MetadataResponseTopic(error_code=_REFUSED, name=name, is_internal=is_internal(name))
        return None


def describe_topic_partitions(request: Request, message: DescribeTopicPartitionsRequest) -> Any:
    """Respond with a page of the topics that the client may describe."""
    listed, cursor, may = {topic.name for topic in message.topics}, message.cursor, request.asker.may
    if cursor is not None and (cursor.partition_index < 0 or (listed and cursor.topic_name not in listed)):
        return request.plain(message)  # which refuses it
    first = "" if cursor is None else cursor.topic_name
    names = sorted(name for name in listed or request.broker.controller.image.topics if name >= first)
    allowed = [name for name in names if may(_DESCRIBE, _TOPIC, name, logs=bool(listed))]
    kept = set(allowed)
    refused = [PageTopic(error_code=_REFUSED, name=name) for name in names if name not in kept] if listed else []
    response = DescribeTopicPartitionsResponse()
    if allowed:
        page = with_field(message, "topics", [TopicRequest(name=name) for name in allowed])
        if cursor is not None and cursor.topic_name not in kept:
            page.cursor = Cursor(topic_name=allowed[0], partition_index=0)
        response = request.plain(page)
    for topic in response.topics:
        topic.topic_authorized_operations = request.asker.operations(_TOPIC, topic.name or "")
    response.topics.extend(refused)
    return response


def create_topics(request: Request, message: CreateTopicsRequest) -> Any:
    """Create the topics that the client may create; show the settings of those that it may see."""
    asker, counts = request.asker, Counter(topic.name for topic in message.topics)
    may_create_all = asker.may(_CREATE, _CLUSTER, logs=False)

    def verdict(topic: Any) -> Verdict:
        return None if may_create_all or counts[topic.name] > 1 else asker.refusal(_CREATE, _TOPIC, topic.name)

    def without_settings(response: Any) -> Any:
        for topic in response.topics:
            if not topic.error_code and not asker.may(AclOperation.DESCRIBE_CONFIGS, _TOPIC, topic.name, logs=False):
                topic.topic_config_error_code, topic.configs = _REFUSED, []
                topic.num_partitions = topic.replication_factor = -1
        return response

    return then(respond_in_parts(request, message, ("topics", "topics"), verdict, "Authorization failed."), without_settings)


def delete_topics(request: Request, message: DeleteTopicsRequest) -> Any:
    """Delete the topics that the client may delete."""
    broker, asker = request.broker, request.asker
    if not broker.config.delete_topic_enable or asker.may(_DELETE, _CLUSTER, logs=False):
        return request.plain(message)
    image = broker.controller.image
    by_name = [topic.name for topic in message.topics if topic.name is not None and topic.topic_id == ZERO_TOPIC_ID]
    names = Counter([*message.topic_names, *by_name])

    def verdict_of_name(name: str) -> Verdict:
        if names[name] > 1:
            return None
        if not asker.may(_DESCRIBE, _TOPIC, name):
            return _REFUSED
        return None if name not in image.topics else asker.refusal(_DELETE, _TOPIC, name)

    def verdict(topic: Any) -> Verdict:
        has_id = topic.topic_id != ZERO_TOPIC_ID
        if has_id == (topic.name is not None):
            return None  # both or neither: the handler refuses it
        if not has_id:
            return verdict_of_name(topic.name)
        name = image.topic_name(TopicId(topic.topic_id))
        return None if name is None else asker.refusal(_DELETE, _TOPIC, name)

    if message.topics:
        return then(respond_in_parts(request, message, ("topics", "responses"), verdict), lambda one: _named(request, one))
    return respond_in_parts(request, message, ("topic_names", "responses"), verdict_of_name)


def _named(request: Request, response: Any) -> Any:
    """Name the topics of refused ids that the client may see."""
    image = request.broker.controller.image
    for one in response.responses:
        name = image.topic_name(TopicId(one.topic_id)) if one.name is None and one.error_code == _REFUSED else None
        if name is not None and request.asker.may(_DESCRIBE, _TOPIC, name, logs=False):
            one.name = name
    return response


def describe_producers(request: Request, message: Any) -> Any:
    """Describe the producers of the topics that the client may read."""

    def verdict(topic: Any) -> Verdict:
        is_name = invalid_name_reason(topic.name) is None
        return request.asker.refusal(AclOperation.READ, _TOPIC, topic.name) if is_name else None

    return respond_in_parts(request, message, ("topics", "topics"), verdict)
