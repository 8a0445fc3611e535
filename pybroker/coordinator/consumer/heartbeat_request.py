"""The rules that every ConsumerGroupHeartbeat must fulfil, whatever the state of its group.

A request also has a bound on what it names, which Kafka does not have: a group is changed in slices, and the names of a
member are looked at in one turn. A member that reads more topics than that subscribes with a regular expression.

Source: GroupMetadataManager.throwIfConsumerGroupHeartbeatRequestIsInvalid; KIP-848, KIP-1082.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.coordinator.state.consumer_member import JOIN_EPOCH, LEAVE_EPOCH, NAMES_MAX, STATIC_LEAVE_EPOCH
from pybroker.metadata.names import NAME_CHARACTERS_MAX
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

OWN_ID_VERSION: Final = 1
"""The version from which members choose their ids themselves."""

PARTITIONS_MAX: Final = 100_000
"""The number of partitions that a member may report to have."""


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Check a request. Raises KafkaError with INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    must_have_id = version >= OWN_ID_VERSION or request.member_epoch > JOIN_EPOCH or request.member_epoch == LEAVE_EPOCH
    if not request.member_id.strip() and must_have_id:
        raise _invalid("MemberId can't be empty.")
    if request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    _check_size(request)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_size(request: ConsumerGroupHeartbeatRequest) -> None:
    names, owned = request.subscribed_topic_names or (), request.topic_partitions or ()
    if len(names) > NAMES_MAX or sum(map(len, names)) > NAMES_MAX * NAME_CHARACTERS_MAX:
        raise _invalid(f"SubscribedTopicNames can't have more than {NAMES_MAX} names of topics.")
    if len(owned) > NAMES_MAX or sum(len(topic.partitions) for topic in owned) > PARTITIONS_MAX:
        raise _invalid(f"TopicPartitions can't have more than {NAMES_MAX} topics or {PARTITIONS_MAX} partitions.")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
