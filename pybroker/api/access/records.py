"""Checks Produce and Fetch.

Produce
    WRITE on each topic; on the transactional id, if records are of a transaction. What is refused stays in the layout of the
    response, so that the order of the partitions and what acks 0 means remain those of the handler.

Fetch
    READ on each topic, or CLUSTER_ACTION for a follower, for every partition of the session at every request: so no session
    serves what is no longer allowed. A refused follower gets TOPIC_AUTHORIZATION_FAILED for each partition.

Source: KafkaApis.handleProduceRequest and handleFetchRequest, RequestUtils.hasTransactionalRecords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.fetch.usual import replica_of
from pybroker.api.handlers.fetch import handle_allowed
from pybroker.api.handlers.produce import handle_except
from pybroker.model import TopicId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records import kernels
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.access.need import Request
    from pybroker.protocol.messages.fetch import FetchRequest
    from pybroker.protocol.messages.produce import ProduceRequest

_PRODUCE_ID_VERSION: Final = 13
_FETCH_ID_VERSION: Final = 13
_WRITE: Final = AclOperation.WRITE
_READ: Final = AclOperation.READ
_TOPIC: Final = ResourceType.TOPIC


def produce(request: Request, message: ProduceRequest) -> Any:
    """Append to the topics that the client may write to."""
    may, uses_ids, is_transactional = request.asker.may, request.context.api_version >= _PRODUCE_ID_VERSION, False
    for topic in message.topic_data:
        for one in topic.partition_data:
            records: Any = one.records  # the decoder makes a memoryview or None
            if records is not None and kernels.is_of_transaction(records):
                is_transactional = True
    if is_transactional:
        transactional_id = message.transactional_id
        if transactional_id is None or not may(_WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused, image = set(), request.broker.controller.image
    for topic in message.topic_data:
        name: str | None = topic.name
        if uses_ids:
            name = image.topic_name(TopicId(topic.topic_id))
        if name is not None and not may(_WRITE, _TOPIC, name):
            refused.add(name)
    return handle_except(request.broker, request.context, message, refused) if refused else request.plain(message)


def fetch(request: Request, message: FetchRequest) -> Any:
    """Read from the topics that the client may read from."""
    asker, context = request.asker, request.context
    if replica_of(context.api_version, message) >= 0:
        if asker.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return request.plain(message)
        return handle_allowed(request.broker, context, message, lambda _: False)
    if message.session_id or message.session_epoch >= 0 or not _may_read_all(request, message):  # a session has topics of its own
        return handle_allowed(request.broker, context, message, _remembered(lambda name: asker.may(_READ, _TOPIC, name)))
    return request.plain(message)


def _may_read_all(request: Request, message: FetchRequest) -> bool:
    """Return whether the client may read each topic that a request without a session names."""
    uses_ids, image = request.context.api_version >= _FETCH_ID_VERSION, request.broker.controller.image
    for topic in message.topics:
        name = image.topic_name(TopicId(topic.topic_id)) if uses_ids else topic.topic
        if name is not None and not request.asker.may(_READ, _TOPIC, name):
            return False
    return True


def _remembered(may: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a function that asks about each name once: a session may have thousands of partitions of one topic."""
    known: dict[str, bool] = {}

    def asked(name: str) -> bool:
        found = known.get(name)
        if found is None:
            found = known[name] = may(name)
        return found

    return asked
