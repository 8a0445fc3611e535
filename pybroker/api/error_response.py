"""Builds the response that carries one error for everything that the request asked for.

Behaviour
    If the response has an error of its own in that version, that field is set. Otherwise every topic or partition, group or
    resource of the request gets the error, with its message where there is a field for it. Used for what a handler raises: a
    KafkaError of a rare path, or a bug of the broker (UNKNOWN_SERVER_ERROR). Imported with the first error, because it needs the
    messages of many APIs.
Source: AbstractRequest.getErrorResponse of each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    delete_topics,
    describe_log_dirs,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from pybroker.protocol.schema import Declared, Field, schema_of

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import KafkaError

_FETCH_ERROR_VERSION: Final = 7
_SEVERAL_TRANSACTIONS_VERSION: Final = 4


def error_response(request: object, response_class: type[Any], version: int, error: KafkaError) -> object:
    """Return the response to `request`, decoded at `version`."""
    special = _SPECIAL.get(type(request))
    if special is not None:
        return special(request, version, error)
    return _mirror(response_class, version, error)(request)


def _mirror(cls: type[Any], version: int, error: KafkaError) -> Callable[[object], Any]:
    """Return the function that makes a response, or a struct in it, from the request. If the response has no error of its own,
    it has the lists of the request, down to the elements that have one.
    """
    fields = _fields(cls, version)
    fixed, has_own = _fixed(fields, error)
    others = [field for field in fields if field.name not in fixed]
    plain = [field for field in others if not field.is_array]
    lists = [] if has_own else [(one, _mirror(one.struct, version, error)) for one in others if one.is_array and one.struct]

    if has_own and not plain:  # so all elements are the same, and there may be thousands
        element = cls(**fixed)
        return lambda _: element

    def mirror(asked: object) -> Any:
        values = dict(fixed)
        if isinstance(asked, Declared):
            values.update((field.name, getattr(asked, field.name)) for field in plain if hasattr(asked, field.name))
        elif asked is not None:  # an element of a list of names or numbers, which the first field of that type holds
            values[next(field.name for field in plain if isinstance(asked, type(field.default)))] = asked
        for field, mirror_element in lists:
            values[field.name] = list(map(mirror_element, _elements(asked, field)))
        return cls(**values)

    return mirror


def _fields(cls: type[Any], version: int) -> list[Field]:
    return [field for field in schema_of(cls).fields if field.versions.has(version)]


def _fixed(fields: list[Field], error: KafkaError) -> tuple[dict[str, object], bool]:
    """Return the values that follow from the error alone, by the names of their fields, and whether there is a field for it."""
    values = {"error_code": error.code, "error_message": error.message, **_NONE_IS_MINUS_1}
    fixed = {field.name: values[field.name] for field in fields if field.name in values}
    return fixed, "error_code" in fixed


def _elements(asked: object, field: Field) -> list[Any]:
    """Return what the request has for a list of the response; nothing where it has none, or asks for "all"."""
    for name in (field.name, *_ASKED_AS.get(field.name, ())):
        if hasattr(asked, name):
            return getattr(asked, name) or []
    return []


_ASKED_AS: Final = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "partition_result": ("partitions",),
    "partitions": ("partition_indexes",),
    "replica_election_results": ("topic_partitions",),
    "responses": ("resources",),
    "transaction_states": ("transactional_ids",),
    "results": ("topics", "resources", "groups_names", "creations"),
}
"""The names of the request's lists, where they differ from those of the response's."""

_NONE_IS_MINUS_1: Final = dict.fromkeys(
    (
        *("committed_offset", "low_watermark", "node_id", "port"),
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    ),
    -1,
)


def _produce(request: produce.ProduceRequest, _version: int, error: KafkaError) -> produce.ProduceResponse | None:
    if request.acks == 0:
        return None
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    produce.PartitionProduceResponse(index=partition.index, error_code=error.code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _add_partitions_to_txn(
    request: add_partitions_to_txn.AddPartitionsToTxnRequest, version: int, error: KafkaError
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    if version >= _SEVERAL_TRANSACTIONS_VERSION:
        return add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=error.code)
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=error.code
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _fetch(request: fetch.FetchRequest, version: int, error: KafkaError) -> fetch.FetchResponse:
    if version >= _FETCH_ERROR_VERSION:
        return fetch.FetchResponse(error_code=error.code, session_id=request.session_id)
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    fetch.PartitionData(
                        partition_index=partition.partition, error_code=error.code, high_watermark=-1, records=b""
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _list_offsets(request: list_offsets.ListOffsetsRequest, _version: int, error: KafkaError) -> list_offsets.ListOffsetsResponse:
    return list_offsets.ListOffsetsResponse(
        topics=[
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    list_offsets.ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=error.code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: metadata.MetadataRequest, _version: int, error: KafkaError) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


def _delete_topics(
    request: delete_topics.DeleteTopicsRequest, _version: int, error: KafkaError
) -> delete_topics.DeleteTopicsResponse:
    by_name = [delete_topics.DeletableTopicResult(name=name, error_code=error.code) for name in request.topic_names]
    by_either = [
        delete_topics.DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error.code)
        for topic in request.topics
    ]
    return delete_topics.DeleteTopicsResponse(responses=by_name + by_either)


def _alter_replica_log_dirs(
    request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, _version: int, error: KafkaError
) -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error.code)
                    for partition in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _alter_client_quotas(
    request: alter_client_quotas.AlterClientQuotasRequest, _version: int, error: KafkaError
) -> alter_client_quotas.AlterClientQuotasResponse:
    return alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.ResponseEntryData(error_code=error.code, error_message=error.message, entity=entry.entity)
            for entry in request.entries
        ]
    )


def _alter_user_scram_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, _version: int, error: KafkaError
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse:
    users = [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)]
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=user, error_code=error.code, error_message=error.message
            )
            for user in dict.fromkeys(users)
        ]
    )


def _describe_log_dirs(
    _request: describe_log_dirs.DescribeLogDirsRequest, _version: int, error: KafkaError
) -> describe_log_dirs.DescribeLogDirsResponse:
    """Return the error, for which there is no place before v3: then no directory is listed."""
    return describe_log_dirs.DescribeLogDirsResponse(error_code=error.code)


_SPECIAL: Final[dict[type, Callable[[Any, int, KafkaError], object]]] = {
    add_partitions_to_txn.AddPartitionsToTxnRequest: _add_partitions_to_txn,
    alter_client_quotas.AlterClientQuotasRequest: _alter_client_quotas,
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    alter_replica_log_dirs.AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    describe_log_dirs.DescribeLogDirsRequest: _describe_log_dirs,
    produce.ProduceRequest: _produce,
    fetch.FetchRequest: _fetch,
    list_offsets.ListOffsetsRequest: _list_offsets,
    metadata.MetadataRequest: _metadata,
    delete_topics.DeleteTopicsRequest: _delete_topics,
}
