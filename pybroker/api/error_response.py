"""Builds the response that carries one error for everything that the request asked for.

Behaviour
    If the response has an error of its own in that version, that field is set. Otherwise every topic or partition, group or
    resource of the request gets the error, with its message where there is a field for it. A message that only repeats the code
    is left out, because some clients (sarama) show the message in place of the code. Used for what a handler raises: a
    KafkaError of a rare path, or a bug of the broker (UNKNOWN_SERVER_ERROR). Imported with the first error, because it needs the
    messages of many APIs.
Source: AbstractRequest.getErrorResponse of each request; ApiError.fromThrowable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.messages import (
    alter_client_quotas,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    find_coordinator,
    metadata,
    produce,
)
from pybroker.protocol.schema import Declared, Field, schema_of

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import KafkaError


def error_response(request: object, response_class: type[Any], version: int, error: KafkaError) -> object:
    """Return the response to `request`, decoded at `version`; None if it gets none."""
    if isinstance(request, produce.ProduceRequest) and request.acks == 0:
        return None
    special = _SPECIAL.get(type(request))
    if special is not None:
        return special(request, version, error)
    return _mirror(response_class, version, error)(request)


def error_of_elements(request: object, response_class: type[Any], version: int, error: KafkaError) -> Any:
    """Return the response with the error in each element of the request; an error of the whole response is left out."""
    return _mirror(response_class, version, error, is_whole=False)(request)


def _mirror(cls: type[Any], version: int, error: KafkaError, *, is_whole: bool = True) -> Callable[[object], Any]:
    """Return the function that makes a response, or a struct in it, from the request. If the response has no error of its own,
    or if the error is not one of the whole, it has the lists of the request, down to the elements that have one.
    """
    fields = _fields(cls, version)
    fixed, has_own = _fixed(cls, fields, error) if is_whole else ({}, False)
    others = [field for field in fields if field.name not in fixed]
    plain = [field for field in others if not field.is_array]
    lists = [] if has_own else [(one, _mirror(one.struct, version, error)) for one in others if one.is_array and one.struct]

    if has_own and not plain:  # so all elements are the same, and there may be thousands
        element = cls(**fixed)
        return lambda _: element

    def mirror(asked: object) -> Any:
        values = dict(fixed)
        if isinstance(asked, Declared):
            values.update((field.name, getattr(asked, name)) for field in plain for name in _names(field) if hasattr(asked, name))
        elif asked is not None:  # an element of a list of names or numbers, which the first field of that type holds
            values[next(field.name for field in plain if isinstance(asked, type(field.default)))] = asked
        for field, mirror_element in lists:
            values[field.name] = list(map(mirror_element, _elements(asked, field)))
        return cls(**values)

    return mirror


def _fields(cls: type[Any], version: int) -> list[Field]:
    return [field for field in schema_of(cls).fields if field.versions.has(version)]


def _fixed(cls: type[Any], fields: list[Field], error: KafkaError) -> tuple[dict[str, object], bool]:
    """Return the values that follow from the error alone, by the names of their fields, and whether there is a field for it."""
    message = error.message if cls in _WITH_GENERAL_MESSAGES else _own_message(error)
    values = {**_UNKNOWN, "error_code": error.code, "partition_error_code": error.code, "error_message": message}
    fixed = {field.name: values[field.name] for field in fields if field.name in values}
    return fixed, "error_code" in fixed


def _own_message(error: KafkaError) -> str | None:
    """Return the message, unless it only repeats the code."""
    return None if error.message == error.code.message else error.message


def _elements(asked: object, field: Field) -> list[Any]:
    """Return what the request has for a list of the response; nothing where it has none, or asks for "all"."""
    return next(filter(None, (getattr(asked, name, None) for name in _names(field))), [])


def _names(field: Field) -> tuple[str, ...]:
    """Return the names that the request may have for a field of the response; a request has one of them."""
    return (field.name, *_ASKED_AS.get(field.name, ()))


_ASKED_AS: Final = {
    "coordinators": ("coordinator_keys",),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "partition_result": ("partitions",),
    "partition_index": ("partition",),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "replica_election_results": ("topic_partitions",),
    "responses": ("resources", "topics", "topic_names", "topic_data"),
    "results_by_partition": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "transaction_states": ("transactional_ids",),
    "results": ("topics", "resources", "groups_names", "creations"),
}
"""The names of the request's fields, where they differ from those of the response's."""

_WITH_GENERAL_MESSAGES: Final = {
    describe_configs.DescribeConfigsResult,
    describe_quorum.DescribeQuorumResponse,
    find_coordinator.Coordinator,
    find_coordinator.FindCoordinatorResponse,
}
"""Where Kafka has a message in any case, as in AlterClientQuotas."""

_UNKNOWN: Final[dict[str, object]] = {
    **dict.fromkeys(("base_offset", "committed_offset", "high_watermark", "log_start_offset", "low_watermark"), -1),
    **dict.fromkeys(("node_id", "port"), -1),
    **dict.fromkeys(("expiry_timestamp_ms", "issue_timestamp_ms", "max_timestamp_ms", "timestamp"), -1),
    "records": b"",
}
"""The values of fields that neither the error nor the request has, where they are not the defaults."""


def _metadata(request: metadata.MetadataRequest, _version: int, error: KafkaError) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        topics=[
            metadata.MetadataResponseTopic(error_code=error.code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


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
                user=user, error_code=error.code, error_message=_own_message(error)
            )
            for user in dict.fromkeys(users)
        ]
    )


_SPECIAL: Final[dict[type, Callable[[Any, int, KafkaError], object]]] = {
    alter_client_quotas.AlterClientQuotasRequest: _alter_client_quotas,
    alter_user_scram_credentials.AlterUserScramCredentialsRequest: _alter_user_scram_credentials,
    alter_replica_log_dirs.AlterReplicaLogDirsRequest: _alter_replica_log_dirs,
    # Before v3 there is no place for the error: then no directory is listed.
    describe_log_dirs.DescribeLogDirsRequest: lambda _request, _version, error: describe_log_dirs.DescribeLogDirsResponse(
        error_code=error.code
    ),
    metadata.MetadataRequest: _metadata,
}
