"""ConsumerGroupHeartbeat (key 68): a member of a KIP-848 group joins, stays alive, acknowledges its assignment and leaves."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Uuid


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ConsumerGroupHeartbeatRequest(Request, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """A heartbeat of one member. A field that is null or -1 has not changed since its last heartbeat."""

    group_id: str = field()
    member_id: str = field()  # v0: empty from a new member; v1: chosen by the member
    member_epoch: Int32 = field()  # 0: joins, -1: leaves, -2: a static member that will join again
    instance_id: str | None = field(default=None)
    rack_id: str | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)
    subscribed_topic_names: list[str] | None = field(default=None)
    subscribed_topic_regex: str | None = field("1+", default=None)
    server_assignor: str | None = field(default=None)
    topic_partitions: list[TopicPartitions] | None = field(default=None)  # what the member owns


class Assignment(Struct):
    """The partitions that the member is to own."""

    topic_partitions: list[TopicPartitions] = field()


class ConsumerGroupHeartbeatResponse(Response, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """The member's epoch and, when it changed, its assignment."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(default=None)
    member_id: str | None = field(default=None)
    member_epoch: Int32 = field()
    heartbeat_interval_ms: Int32 = field()
    assignment: Assignment | None = field(default=None)  # null: as before
