"""Metadata (key 3), v0-13: which brokers there are and which of them leads each partition; may create topics on the way.

Behaviour
    A topic that does not exist is created, if the broker and the request allow it. The response has its leader, which knows the
    topic by then (`new_partitions`): Kafka responds with an error first, and clients ask again. Many requests for one new topic
    make one topic. A request makes at most as many partitions as one CreateTopics may (10,000): one that would make more creates
    nothing, as in Kafka.
    If the request has a topic id, only ids count and names are ignored, as in Kafka. A topic that the request has twice is in the
    response once. The structures of a response are made once per image of the cluster and shared by all responses.
    The controller of a response is this broker, because any broker does what clients ask a controller for. Kafka with KRaft names
    any live broker. The elected one may be dead, and librdkafka's admin client would wait for it for a minute.
Versions
    v0 an empty list asks for all topics, and a partition with replicas out of reach is REPLICA_NOT_AVAILABLE. v1 null asks for
    all, rack, controller. v2 cluster id. v4 whether to create topics. v5 offline replicas. v6 LISTENER_NOT_FOUND instead of
    LEADER_NOT_AVAILABLE. v7 leader epoch. v8 authorized operations; those of the cluster until v10. v9 flexible. v10 topic ids in
    the response, v12 also in the request (INVALID_REQUEST before). v13 an error of the whole response.
Not done
    Authorization: everything is allowed, which the operations show.
Source: KafkaApis.handleTopicMetadataRequest, KRaftMetadataCache; KIP-430, KIP-516.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.metadata_topics import MetadataTopics, metadata_brokers
from pybroker.api.new_partitions import leaders_know
from pybroker.api.nodes import CLUSTER_OPERATIONS, reach
from pybroker.api.pieces import Once, Pieces, first_of
from pybroker.api.response_memo import REQUEST_BYTES_MAX
from pybroker.metadata.names import invalid_name_reason, is_internal
from pybroker.metadata.new_topic import PARTITIONS_PER_REQUEST_MAX
from pybroker.model import ZERO_TOPIC_ID, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterator

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

KEEPS_RESPONSES: Final = True
"""The responses follow from the image, the client's address and the request; see `ResponseMemo`. They share their topics."""


def _leave_out_repeats(request: Any, known: Container[Hashable]) -> set[Hashable]:
    named: set[Hashable] = set()
    request.topics = first_of(request.topics, known, named, _name_of)
    return named


def _name_of(topic: MetadataRequestTopic) -> Hashable:
    return topic.name if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id


def _large(response: Any) -> Iterator[Hashable]:
    for topic in response.topics:
        if topic.partitions:
            yield topic.name
            yield topic.topic_id


def _bound_creation(broker: Services, context: RequestContext, request: Any) -> None:
    """Let a large request create nothing if it would create too much."""
    if not (request.allow_auto_topic_creation and broker.config.auto_create_topics_enable):
        return
    known = broker.controller.image.topics
    missing = {topic.name for topic in request.topics if topic.name is not None and topic.name not in known}
    request.allow_auto_topic_creation = not _is_excessive(broker, context, len(missing))


def _is_excessive(broker: Services, context: RequestContext, missing_count: int) -> bool:
    """Return whether the request asks for more new topics than one request may create; `missing_count` are not there."""
    if missing_count * broker.config.num_partitions <= PARTITIONS_PER_REQUEST_MAX:
        return False
    logger.info("%s asks for more new topics than one request may create, so the broker creates none", context.connection)
    return True


PIECES: Final = Pieces(
    ("topics", "topics"),
    elements=50,
    uncounted_bytes=REQUEST_BYTES_MAX,
    once=Once(leave_out=_leave_out_repeats, large=_large),
    bound=_bound_creation,
)
"""Only what is handled at once is kept for the next request. Its topics are shared, so that each takes some microseconds."""


def handle(broker: Services, context: RequestContext, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Respond at once, unless topics have to be created first."""
    asked, version = request.topics, context.api_version
    if asked is None or (version == 0 and not asked):
        return in_slices(_all_topics(broker, context, request))
    names: dict[str, None] = {}  # in the order of the request, each once
    ids: dict[TopicId, None] = {}
    for topic in asked:
        if version < 12 and (topic.name is None or topic.topic_id != ZERO_TOPIC_ID):
            return _refuse(asked)
        if topic.topic_id != ZERO_TOPIC_ID:
            ids[TopicId(topic.topic_id)] = None
        elif topic.name is not None:
            names[topic.name] = None
    if ids:
        return _respond(broker, context, request, _topics_by_id(broker, context, request, ids))
    known = broker.controller.image.topics
    missing = [name for name in names if name not in known]
    if missing and request.allow_auto_topic_creation and broker.config.auto_create_topics_enable:
        creatable = [name for name in missing if invalid_name_reason(name) is None]
        if creatable and not _is_excessive(broker, context, len(creatable)):
            return _create_and_respond(broker, context, request, names, creatable)
    return _respond(broker, context, request, _topics_by_name(broker, context, request, names, {}))


def _all_topics(broker: Services, context: RequestContext, request: MetadataRequest) -> Pausing[MetadataResponse]:
    """Return the response with every topic of the image that is there now; the image may be replaced meanwhile."""
    response = _respond(broker, context, request, [])
    response.topics = yield from MetadataTopics.of(broker, context, request).all()
    return response


async def _create_and_respond(
    broker: Services, context: RequestContext, request: MetadataRequest, names: Iterable[str], missing: list[str]
) -> MetadataResponse:
    outcomes = await broker.controller.create_missing_topics(missing)
    await leaders_know(broker, [outcome.topic for outcome in outcomes.values() if outcome.topic is not None])
    errors = {name: outcome.error.code for name, outcome in outcomes.items() if outcome.error is not None}
    return _respond(broker, context, request, _topics_by_name(broker, context, request, names, errors))


def _respond(
    broker: Services, context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    reachable, own = reach(broker, context), broker.controller.broker_id
    response = MetadataResponse(
        brokers=metadata_brokers(broker, context),
        cluster_id=broker.controller.image.cluster_id,
        controller_id=own if own in reachable.ids else reachable.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _refuse(asked: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    code = ErrorCode.INVALID_REQUEST
    topics = [MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in asked]
    return MetadataResponse(topics=topics, error_code=code)


def _topics_by_name(
    broker: Services, context: RequestContext, request: MetadataRequest, names: Iterable[str], errors: Mapping[str, ErrorCode]
) -> list[MetadataResponseTopic]:
    known_topics = MetadataTopics.of(broker, context, request)
    topics = []
    for name in names:
        topic = known_topics.named(name)
        if topic is not None:
            topics.append(topic)
            continue
        error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if invalid_name_reason(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        topics.append(
            MetadataResponseTopic(
                error_code=error,
                name=name,
                is_internal=is_internal(name),
                topic_authorized_operations=known_topics.operations,
            )
        )
    return topics


def _topics_by_id(
    broker: Services, context: RequestContext, request: MetadataRequest, ids: Iterable[TopicId]
) -> list[MetadataResponseTopic]:
    known = broker.controller.image.topics_by_id
    known_topics = MetadataTopics.of(broker, context, request)
    return [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        if (topic := known.get(topic_id)) is None
        else known_topics.topic(topic)
        for topic_id in ids
    ]
