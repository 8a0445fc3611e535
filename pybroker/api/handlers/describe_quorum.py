"""DescribeQuorum (key 55), v0-2: the replicas of the cluster's metadata, and how far each of them is.

Behaviour
    The metadata store of this broker is the quorum: its only voter, and its leader. One commit of the store is one offset, so the
    log end offset is the number of commits (`metadata/store/base.py`). The high watermark is the same, because a commit is
    durable before any part of the broker sees it. There are no elections: the leader epoch is always 0. The voter reads its own
    store, so it has caught up at the time of the response. Its address is that of the broker, as in Metadata. Its directory id is
    not set, as in a Kafka whose voters are configured. No client can read __cluster_metadata: a request for anything but its
    partition 0 gets UNKNOWN_TOPIC_OR_PARTITION for all that it names.
Versions
    v1 times of the replicas (KIP-836). v2 directory ids and addresses of the voters, error messages (KIP-853).
Not done
    Several voters, and observers: there is one broker.
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

METADATA_TOPIC: Final = "__cluster_metadata"
LEADER_EPOCH: Final = 0
PIECES: Final = Pieces(("topics.partitions", "topics.partitions"))

_ALL: Final = [TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
_NODES_VERSION: Final = 2


def handle(broker: Services, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Respond from the image, whose revision is the number of the store's commits."""
    if request.topics != _ALL:
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    broker_id, end_offset, now_ms = broker.controller.broker_id, broker.controller.image.revision, broker.clock.time_ms()
    voter = ReplicaState(
        replica_id=broker_id, log_end_offset=end_offset, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    partition = ResponsePartitionData(
        partition_index=0,
        leader_id=broker_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end_offset,
        current_voters=[voter],
    )
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=_nodes(broker, context) if context.api_version >= _NODES_VERSION else [],
    )


def _nodes(broker: Services, context: RequestContext) -> list[Node]:
    name = context.connection.listener_name
    own = [node for node in reach(broker, context).nodes if node.broker_id == broker.controller.broker_id]
    return [Node(node_id=n.broker_id, listeners=[Listener(name=name, host=n.host, port=n.port)]) for n in own]


def _unknown(topic: TopicData) -> ResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ResponseTopicData(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartitionData(partition_index=one.partition_index, error_code=code, error_message=code.message)
            for one in topic.partitions
        ],
    )
