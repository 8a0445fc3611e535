"""Builds the response that carries one error for everything that the request asked for.

Behaviour
    If the response has an error of its own in that version, that field is set; otherwise every topic or partition, group or
    resource of the request gets the error. Used for what a handler raises: a KafkaError of a rare path, or a bug of the broker
    (UNKNOWN_SERVER_ERROR). Imported with the first error, because it needs the messages of many APIs.
Source: AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pybroker.network.context import ProtocolViolation
from pybroker.protocol.messages import (
    add_partitions_to_txn,
    alter_replica_log_dirs,
    delete_topics,
    describe_log_dirs,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from pybroker.protocol.schema import Field, Struct, schema_of

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import ErrorCode

_FETCH_ERROR_VERSION: Final = 7
_SEVERAL_TRANSACTIONS_VERSION: Final = 4


def error_response(request: object, response_class: type[Any], version: int, code: ErrorCode) -> object:
    """Return the response to `request`, decoded at `version`.

    Raises ProtocolViolation if `request` is None, because it was long and was let go, and the response has to name its parts.
    """
    special = _SPECIAL.get(type(request))
    if special is not None:
        return special(request, version, code)
    fields = schema_of(response_class).fields
    if any(field.name == "error_code" and field.versions.has(version) for field in fields):
        return response_class(error_code=code)
    if request is None:
        raise ProtocolViolation(f"there is no {response_class.__name__} without the request, which was let go")
    return _mirror(request, response_class, version, code)


def _mirror(asked: object, cls: type[Any], version: int, code: ErrorCode) -> Any:
    """Return a response, or a struct of one, that repeats the lists of the request, down to the elements with an error."""
    fields = [field for field in schema_of(cls).fields if field.versions.has(version)]
    has_own = any(field.name == "error_code" for field in fields)
    values: dict[str, object] = {"error_code": code} if has_own else {}
    if not isinstance(asked, Struct):  # an element of a list of names or numbers, which the first field of that type holds
        values[next(field.name for field in fields if isinstance(asked, type(field.default)))] = asked
    for field in fields:
        if field.name in values:
            continue
        if field.name in _NONE_IS_MINUS_1:
            values[field.name] = -1
        elif field.is_array:
            if field.struct is not None and not has_own:
                values[field.name] = [_mirror(one, field.struct, version, code) for one in _elements(asked, field)]
        elif isinstance(asked, Struct) and hasattr(asked, field.name):
            values[field.name] = getattr(asked, field.name)
    return cls(**values)


def _elements(asked: object, field: Field) -> list[Any]:
    """Return what the request has for a list of the response; nothing where it has none, or asks for "all"."""
    for name in (field.name, *_ASKED_AS.get(field.name, ())):
        if hasattr(asked, name):
            return getattr(asked, name) or []
    return []


_ASKED_AS: Final = {
    "coordinators": ("coordinator_keys",),
    "groups": ("group_ids",),
    "partition_result": ("partitions",),
    "partitions": ("partition_indexes",),
    "replica_election_results": ("topic_partitions",),
    "responses": ("resources",),
    "transaction_states": ("transactional_ids",),
    "results": ("topics", "resources", "groups_names"),
}
"""The names of the request's lists, where they differ from those of the response's."""

_NONE_IS_MINUS_1: Final = {"committed_offset", "low_watermark", "node_id", "port"}


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


def _add_partitions_to_txn(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, version: int, code: ErrorCode
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    if version >= _SEVERAL_TRANSACTIONS_VERSION:
        return add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=code)
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
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


def _delete_topics(
    request: delete_topics.DeleteTopicsRequest, _version: int, code: ErrorCode
) -> delete_topics.DeleteTopicsResponse:
    by_name = [delete_topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    by_either = [
        delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics
    ]
    return delete_topics.DeleteTopicsResponse(responses=by_name + by_either)


def _alter_replica_log_dirs(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, _version: int, code: ErrorCode
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _describe_log_dirs(
    _request: describe_log_dirs.DescribeLogDirsRequest, _version: int, code: ErrorCode
) -> describe_log_dirs.DescribeLogDirsResponse:
    """Return the error, for which there is no place before v3: then no directory is listed."""
    return describe_log_dirs.DescribeLogDirsResponse(error_code=code)


_SPECIAL: Final[dict[type, Callable[[Any, int, ErrorCode], object]]] = {
    add_partitions_to_txn.AddPartitionsToTxnRequest: _add_partitions_to_txn,
    alter_replica_log_dirs.AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    describe_log_dirs.DescribeLogDirsRequest: _describe_log_dirs,
    produce.ProduceRequest: _produce,
    fetch.FetchRequest: _fetch,
    list_offsets.ListOffsetsRequest: _list_offsets,
    metadata.MetadataRequest: _metadata,
    delete_topics.DeleteTopicsRequest: _delete_topics,
}
