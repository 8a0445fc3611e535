"""A response that says one error of everything that the request asked for.

Behaviour
    Where the response has an error of its own in that version, that is set; elsewhere every topic or partition of the request
    gets it. Used for what a handler raises: a KafkaError of a rare path, or a bug of ours (UNKNOWN_SERVER_ERROR).
Source: AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.messages import (
    create_topics,
    delete_topics,
    describe_topic_partitions,
    fetch,
    list_offsets,
    metadata,
    produce,
)

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import ErrorCode

_FETCH_ERROR_VERSION: Final = 7


def error_response(request: object, response_class: type[Any], version: int, code: ErrorCode) -> object:
    """The response to `request`, decoded at `version`."""
    special = _SPECIAL.get(type(request))
    return response_class(error_code=code) if special is None else special(request, version, code)


def _produce(request: produce.ProduceRequest, _version: int, code: ErrorCode) -> produce.ProduceResponse | None:
    if request.acks == 0:
        return None
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    produce.PartitionProduceResponse(index=partition.index, error_code=code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: fetch.FetchRequest, version: int, code: ErrorCode) -> fetch.FetchResponse:
    if version >= _FETCH_ERROR_VERSION:
        return fetch.FetchResponse(error_code=code, session_id=request.session_id)
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    fetch.PartitionData(partition_index=partition.partition, error_code=code, high_watermark=-1, records=b"")
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(request: list_offsets.ListOffsetsRequest, _version: int, code: ErrorCode) -> list_offsets.ListOffsetsResponse:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: metadata.MetadataRequest, _version: int, code: ErrorCode) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


def _create_topics(
    request: create_topics.CreateTopicsRequest, _version: int, code: ErrorCode
) -> create_topics.CreateTopicsResponse:
    return create_topics.CreateTopicsResponse(
        topics=[create_topics.CreatableTopicResult(name=topic.name, error_code=code) for topic in request.topics]
    )


def _delete_topics(
    request: delete_topics.DeleteTopicsRequest, _version: int, code: ErrorCode
) -> delete_topics.DeleteTopicsResponse:
    by_name = [delete_topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    by_either = [
        delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics
    ]
    return delete_topics.DeleteTopicsResponse(responses=by_name + by_either)


def _describe_topic_partitions(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, _version: int, code: ErrorCode
) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
            for topic in request.topics
        ]
    )


_SPECIAL: Final[dict[type, Callable[[Any, int, ErrorCode], object]]] = {
    produce.ProduceRequest: _produce,
    fetch.FetchRequest: _fetch,
    list_offsets.ListOffsetsRequest: _list_offsets,
    metadata.MetadataRequest: _metadata,
    create_topics.CreateTopicsRequest: _create_topics,
    delete_topics.DeleteTopicsRequest: _delete_topics,
    describe_topic_partitions.DescribeTopicPartitionsRequest: _describe_topic_partitions,
}
