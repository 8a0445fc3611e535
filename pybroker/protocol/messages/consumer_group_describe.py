"""ConsumerGroupDescribe (key 69): state, members and assignments of KIP-848 groups."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int8, Int16, Int32, Uuid


class ConsumerGroupDescribeRequest(Request, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """Names of the groups to describe."""

    group_ids: list[str] = field()
    include_authorized_operations: Bool = field()


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field()
    topic_name: str = field()
    partitions: list[Int32] = field()


class Assignment(Struct):
    """The partitions that a member owns, or is to own."""

    topic_partitions: list[TopicPartitions] = field()


class Member(Struct):
    """A member."""

    member_id: str = field()
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    member_epoch: Int32 = field()
    client_id: str = field()
    client_host: str = field()
    subscribed_topic_names: list[str] = field()
    subscribed_topic_regex: str | None = field(default=None)
    assignment: Assignment = field()
    target_assignment: Assignment = field()
    member_type: Int8 = field("1+", default=-1, ignorable=True)  # -1: unknown, 0: classic, 1: KIP-848


class DescribedGroup(Struct):
    """A group."""

    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    group_id: str = field()
    group_state: str = field()  # Empty, Assigning, Reconciling, Stable or Dead
    group_epoch: Int32 = field()
    assignment_epoch: Int32 = field()
    assignor_name: str = field()
    members: list[Member] = field()
    authorized_operations: Int32 = field(default=-2147483648)  # a bit field; the default: was not requested


class ConsumerGroupDescribeResponse(Response, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    """One description per group."""

    throttle_time_ms: Int32 = field()
    groups: list[DescribedGroup] = field()
