"""DescribeQuorum (key 55), v0-2: the replicas of the cluster's metadata, and how far each of them is.

Behaviour
    The metadata store takes the place of Kafka's quorum. Its voter, and leader, is the elected controller; the other live brokers
    follow the store as observers. One commit of the store is one offset, so the log end offset is the number of commits that this
    broker has seen (`metadata/store/base.py`). The high watermark is the same, because a commit is durable before any broker sees
    it. How far an observer is only the observer itself knows: for another one, the offset and the times are -1, unknown. The
    store counts no epochs: the leader epoch is always 0. The address of the voter is that of the broker, as in Metadata. Its
    directory id is not set, as in a Kafka whose voters are configured. No client can read __cluster_metadata: a request for
    anything but its partition 0 gets UNKNOWN_TOPIC_OR_PARTITION for all that it names.
Versions
    v1 times of the replicas (KIP-836). v2 directory ids and addresses of the voters, error messages (KIP-853).
Not done
    The members of an etcd, which are not brokers.
Source: KafkaRaftClient.handleDescribeQuorumRequest, LeaderState.describeQuorum; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.nodes import reach
from pybroker.api.pieces import Pieces
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
    from pybroker.api.context import RequestContext, Services
    from pybroker.model import BrokerId

METADATA_TOPIC: Final = "__cluster_metadata"
LEADER_EPOCH: Final = 0
UNKNOWN: Final = -1
PIECES: Final = Pieces(("topics.partitions", "topics.partitions"))

_ALL: Final = [TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
_NODES_VERSION: Final = 2


def handle(broker: Services, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Respond from the image, whose revision is the number of the store's commits."""
    if request.topics != _ALL:
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    image, own_id = broker.controller.image, broker.controller.broker_id
    end_offset, now_ms, leader_id = image.revision, broker.clock.time_ms(), image.controller_id
    here, elsewhere = (end_offset, now_ms, now_ms), (UNKNOWN, UNKNOWN, UNKNOWN)
    observers = sorted(image.brokers.keys() - {leader_id})
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end_offset,
        current_voters=[_replica(leader_id, here)],
        observers=[_replica(one, here if one == own_id else elsewhere) for one in observers],
    )
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes(broker, context) if context.api_version >= _NODES_VERSION else [],
    )


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
