"""Checks requests about producer ids and transactions, where the general way does not do.

Source: KafkaApis.handleInitProducerIdRequest, handleAddPartitionsToTxnRequest, handleDescribeTransactionsRequest and
handleListTransactionsRequest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.parts import respond_in_parts, then
from pybroker.metadata.names import is_internal
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from pybroker.security.acl.binding import AclOperation, ResourceType

if TYPE_CHECKING:
    from pybroker.api.access.need import Request
    from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
    from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
    from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
    from pybroker.protocol.messages.list_transactions import ListTransactionsRequest

_ID: Final = ResourceType.TRANSACTIONAL_ID
_TOPIC: Final = ResourceType.TOPIC
_CLUSTER: Final = ResourceType.CLUSTER
_WRITE: Final = AclOperation.WRITE
_DESCRIBE: Final = AclOperation.DESCRIBE
_OF_BROKERS_VERSION: Final = 4


def init_producer_id(request: Request, message: InitProducerIdRequest) -> Any:
    """Give a producer id to a client that may write to some topic, or with this transactional id."""
    asker, transactional_id = request.asker, message.transactional_id
    if transactional_id is not None:
        asker.require(_WRITE, _ID, transactional_id)
    elif not asker.may(AclOperation.IDEMPOTENT_WRITE, _CLUSTER, logs=False) and not asker.may_any(_WRITE, _TOPIC):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return request.plain(message)


def add_partitions_to_txn(request: Request, message: AddPartitionsToTxnRequest) -> Any:
    """Add partitions that the client may write to: all of the request, or none."""
    asker = request.asker
    if request.context.api_version >= _OF_BROKERS_VERSION:
        asker.require(AclOperation.CLUSTER_ACTION, _CLUSTER)
        return request.plain(message)
    asker.require(_WRITE, _ID, message.v3_and_below_transactional_id)
    topics = message.v3_and_below_topics
    refused = {topic.name for topic in topics if is_internal(topic.name) or not asker.may(_WRITE, _TOPIC, topic.name)}
    if not refused:
        return request.plain(message)
    has_partition = request.broker.controller.image.has_partition

    def code_of(name: str, number: int) -> ErrorCode:
        if name in refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        exists = has_partition(TopicPartition(name, number))
        return ErrorCode.OPERATION_NOT_ATTEMPTED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code_of(topic.name, number))
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def describe_transactions(request: Request, message: DescribeTransactionsRequest) -> Any:
    """Describe the transactional ids that the client may describe, with those of their topics that it may describe."""
    may = request.asker.may

    def seen(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if may(_DESCRIBE, _TOPIC, topic.topic)]
        return response

    refusal = partial(request.asker.refusal, _DESCRIBE, _ID)
    return then(respond_in_parts(request, message, ("transactional_ids", "transaction_states"), refusal), seen)


def list_transactions(request: Request, message: ListTransactionsRequest) -> Any:
    """List the transactional ids that the client may describe."""
    may = request.asker.may

    def seen(response: Any) -> Any:
        response.transaction_states = [
            state for state in response.transaction_states if may(_DESCRIBE, _ID, state.transactional_id)
        ]
        return response

    return then(request.plain(message), seen)
