"""DescribeQuorum (key 55), v0-2: the replicas of the cluster's metadata, and how far each of them is.

Behaviour
    The metadata store takes the place of Kafka's quorum. One commit of the store is one offset; no client can read
    __cluster_metadata. A request for anything but its partition 0 gets UNKNOWN_TOPIC_OR_PARTITION for all that it names.
    Where the settings number several controllers (`controller.quorum.voters`), these are the voters, and the members of etcd
    beside them are asked: the leader is etcd's, its term is the leader epoch, and a voter's log end offset is the last revision
    that its member has. For a member that does not respond, the offset and the times are -1, unknown. While none leads, the
    partition has NOT_LEADER_OR_FOLLOWER. Observers are the live brokers that are no voters.
    Elsewhere the voter, and leader, is the elected controller, and the other live brokers are observers. The log end offset is
    the number of commits that this broker has seen (`metadata/store/base.py`). The high watermark is the same, because a commit
    is durable before any broker sees it. The store counts no epochs: the leader epoch is always 0. The address of the voter is
    that of the broker, as in Metadata.
    How far an observer is only the observer itself knows: for another one, the offset and the times are -1. Directory ids are
    not set, as in a Kafka whose voters are configured.
Versions
    v1 times of the replicas (KIP-836). v2 directory ids and addresses of the voters, error messages (KIP-853).
Not done
    Members of an etcd that are not in `controller.quorum.voters`: they have no numbers.
Source: KafkaRaftClient.handleDescribeQuorumRequest, LeaderState.describeQuorum; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.nodes import reach
from pybroker.api.pieces import Pieces
from pybroker.metadata.controllers import UNKNOWN
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.controllers import AskControllers, ControllerStanding
    from pybroker.model import BrokerId

METADATA_TOPIC: Final = "__cluster_metadata"
LEADER_EPOCH: Final = 0
PIECES: Final = Pieces(("topics.partitions", "topics.partitions"))

_ALL: Final = [TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
_NODES_VERSION: Final = 2
_ELSEWHERE: Final = (UNKNOWN, UNKNOWN, UNKNOWN)


def handle(
    broker: Services, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | Awaitable[DescribeQuorumResponse]:
    """Respond from the image, whose revision is the number of the store's commits, or with what the controllers report."""
    if request.topics != _ALL:
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    if broker.ask_controllers is not None:
        return _of_controllers(broker, context, broker.ask_controllers)
    end_offset, leader_id = broker.controller.image.revision, broker.controller.image.controller_id
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end_offset,
        current_voters=[_replica(leader_id, _here(broker))],
        observers=_observers(broker, {leader_id}),
    )
    return _described(partition, _nodes(broker, context) if context.api_version >= _NODES_VERSION else [])


async def _of_controllers(broker: Services, context: RequestContext, ask: AskControllers) -> DescribeQuorumResponse:
    found = await ask()
    leader = next((one for one in found if one.is_leader), None)
    if leader is None:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        message = "No controller leads, or the one that does is not reached: a majority of them must run."
        return _described(ResponsePartitionData(partition_index=0, error_code=code, error_message=message), [])
    now_ms = broker.clock.time_ms()
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        high_watermark=leader.revision,
        current_voters=[_replica(one.node_id, _position(one, leader, now_ms)) for one in found],
        observers=_observers(broker, {one.node_id for one in found}),
    )
    name = next(iter(broker.config.controller_listener_names or ()), "CONTROLLER")
    nodes = [Node(node_id=one.node_id, listeners=[Listener(name=name, host=one.host, port=one.port)]) for one in found]
    return _described(partition, nodes if context.api_version >= _NODES_VERSION else [])


def _position(one: ControllerStanding, leader: ControllerStanding, now_ms: int) -> tuple[int, int, int]:
    if one.revision == UNKNOWN:
        return _ELSEWHERE
    return one.revision, now_ms, now_ms if one.revision >= leader.revision else UNKNOWN


def _observers(broker: Services, voters: Collection[BrokerId]) -> list[ReplicaState]:
    own_id, brokers = broker.controller.broker_id, sorted(broker.controller.image.brokers.keys() - voters)
    return [_replica(one, _here(broker) if one == own_id else _ELSEWHERE) for one in brokers]


def _here(broker: Services) -> tuple[int, int, int]:
    now_ms = broker.clock.time_ms()
    return broker.controller.image.revision, now_ms, now_ms


def _described(partition: ResponsePartitionData, nodes: list[Node]) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])], nodes=nodes)


def _nodes(broker: Services, context: RequestContext) -> list[Node]:
    name = context.connection.listener_name
    voters = [node for node in reach(broker, context).nodes if node.broker_id == broker.controller.image.controller_id]
    return [Node(node_id=n.broker_id, listeners=[Listener(name=name, host=n.host, port=n.port)]) for n in voters]


def _replica(broker_id: BrokerId, position: tuple[int, int, int]) -> ReplicaState:
    end_offset, fetched_ms, caught_up_ms = position
    return ReplicaState(
        replica_id=broker_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=fetched_ms,
        last_caught_up_timestamp=caught_up_ms,
    )


def _unknown(topic: TopicData) -> ResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ResponseTopicData(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartitionData(partition_index=one.partition_index, error_code=code, error_message=code.message)
            for one in topic.partitions
        ],
    )
