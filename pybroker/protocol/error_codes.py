"""Kafka's error codes, and the exception by which rare paths return one.

Source: `org.apache.kafka.common.protocol.Errors` of Kafka 4.4. The texts are ours: clients decide
by the code.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """A code of a response.

    Attributes:
        is_retriable: whether Kafka's clients retry by themselves.
        message: one sentence for people, for the fields `error_message` of responses.
    """

    is_retriable: bool
    message: str

    def __new__(cls, code: int, is_retriable: bool, message: str) -> Self:  # noqa: D102
        member = int.__new__(cls, code)
        member._value_ = code
        member.is_retriable = is_retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "The broker failed unexpectedly."
    NONE = 0, False, ""
    OFFSET_OUT_OF_RANGE = 1, False, "The offset is outside of the partition's range."
    CORRUPT_MESSAGE = 2, True, "The records are damaged: a wrong checksum, size or layout, or no key where the topic needs one."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker does not have the topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not valid."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker is not the leader, or not a replica, of the partition."
    REQUEST_TIMED_OUT = 7, True, "The request was not completed in time."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, False, "A record batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata string of a committed offset is too long."
    NETWORK_EXCEPTION = 13, True, "The connection ended before the response came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "No coordinator is available."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, False, "The operation is not allowed on this topic, or the topic's name is not valid."
    RECORD_LIST_TOO_LARGE = 18, False, "The records of one request exceed the segment size of the topic."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than the topic requires; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "The records were written, but to fewer in-sync replicas than the topic requires.",
    )
    INVALID_REQUIRED_ACKS = 21, False, "The required acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, False, "The generation is not the current one of the group."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "The member supports none of the protocols that the group's members share, or named none.",
    )
    INVALID_GROUP_ID = 24, False, "The group id is not valid."
    UNKNOWN_MEMBER_ID = 25, False, "The coordinator does not know the member."
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "The session timeout is outside of group.min.session.timeout.ms and group.max.session.timeout.ms.",
    )
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The committed offset is too large to store."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "Not authorized for the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "Not authorized for the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, False, "The timestamp of a record is outside of the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not fit the state of the authentication."
    UNSUPPORTED_VERSION = 35, False, "The broker does not speak this version of the API."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists."
    INVALID_PARTITIONS = 37, False, "The number of partitions must be at least 1."
    INVALID_REPLICATION_FACTOR = 38, False, "The replication factor must be at least 1 and at most the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The assignment of replicas is not valid."
    INVALID_CONFIG = 40, False, "The configuration is not valid."
    NOT_CONTROLLER = 41, True, "This broker is not the controller."
    INVALID_REQUEST = 42, False, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "The message format of the topic does not support the request."
    POLICY_VIOLATION = 44, False, "The request violates a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number does not follow its last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows the operation."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, False, "The transaction timeout exceeds transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, True, "Another operation on the same transaction is running."
    TRANSACTION_COORDINATOR_FENCED = 52, False, "A newer transaction coordinator has taken over the producer."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "Not authorized for the transactional id."
    SECURITY_DISABLED = 54, False, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not attempted, because another operation of the same request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The log on the disk cannot be read or written."
    LOG_DIR_NOT_FOUND = 57, False, "The log directory is not one of the broker's."
    SASL_AUTHENTICATION_FAILED = 58, False, "Authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59,
        False,
        "The broker no longer knows the producer id, for example because its last records were deleted.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "The principal neither owns the delegation token nor may renew it."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "A delegation token cannot be requested over a channel of this kind."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "Not authorized for the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group has members."
    GROUP_ID_NOT_FOUND = 69, False, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The fetch session does not exist, or does not exist any more."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The epoch of the fetch session is not the expected one."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener with the name of the listener that received the request."
    TOPIC_DELETION_DISABLED = 73, False, "Deleting topics is disabled."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch of the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch of the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The compression type of the records cannot be used with this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, True, "The new leader's high watermark has not caught up yet."
    MEMBER_ID_REQUIRED = 79, False, "The member has to join again with the id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group is full."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over the group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may become leader is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, False, "The broker's validation refused a record."
    UNSTABLE_OFFSET_COMMIT = 88, True, "A pending transaction may still change the committed offsets."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is exceeded."
    PRODUCER_FENCED = 90, False, "A newer producer uses the transactional id."
    RESOURCE_NOT_FOUND = 91, False, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, False, "The sender or the receiver is not one of the expected voters."
    INVALID_UPDATE_VERSION = 95, False, "The version of the update is not valid."
    FEATURE_UPDATE_FAILED = 96, False, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside of the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker does not know the topic id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "Another broker uses this id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker with this id is registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic id of the request is not that of the log."
    INCONSISTENT_CLUSTER_ID = 104, False, "The cluster id of the request is not that of this cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic ids and topic names."
    INELIGIBLE_REPLICA = 107, False, "A replica of the new ISR may not be in it."
    NEW_LEADER_ELECTED = 108, False, "The partition was changed as requested, and its leader has changed too."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is in tiered storage."
    FENCED_MEMBER_EPOCH = 110, False, "The member's epoch is fenced; it has to give up its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, False, "The member that has the group instance id must leave first."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support the assignor or its version."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is behind; it learns the new one from its next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request belongs to another type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is not valid or out of date."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry exceeds what the broker accepts."
    INVALID_REGISTRATION = 119, False, "The broker's registration is not valid."
    TRANSACTION_ABORTABLE = 120, False, "The transaction failed; abort it to continue with the same transactional id."
    INVALID_RECORD_STATE = 121, False, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, True, "The share session does not exist, or does not exist any more."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The epoch of the share session is not the expected one."
    FENCED_STATE_EPOCH = 124, False, "The epoch of the state is not the coordinator's."
    INVALID_VOTER_KEY = 125, False, "The voter's key is not that of the replica."
    DUPLICATE_VOTER = 126, False, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, False, "The client's metadata is too old; it has to start again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the topology is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The epoch of the topology is out of date."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "No more share sessions can be opened."
    GROUP_DELETION_FAILED = 134, False, "The group could not be deleted; the group's own result gives the reason."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, False, "The description of the topology could not be stored."
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "No controller with this id is registered."


def code_of_number(number: int) -> ErrorCode:
    """Return the code of this number in a response of another broker; UNKNOWN_SERVER_ERROR for one that a later version has."""
    found = ErrorCode._value2member_map_.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert isinstance(found, ErrorCode)
    return found


class KafkaError(Exception):
    """Ends the handling of a request, or of one part of it, with an error code.

    Only rare paths raise it; hot loops return an `ErrorCode`. The text defaults to the code's own.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = code.message if message is None else message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
