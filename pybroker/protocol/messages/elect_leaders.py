"""ElectLeaders (key 43): choose new leaders for partitions."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = field()
    partitions: list[Int32] = field()


class ElectLeadersRequest(Request, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """Partitions that are to have another leader."""

    election_type: Int8 = field("1+")  # 0: the preferred replica, 1: any live replica, even if records are lost
    topic_partitions: list[TopicPartitions] | None = field()  # null: all
    timeout_ms: Int32 = field(default=60000)


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()


class ReplicaElectionResult(Struct):
    """The partitions of one topic."""

    topic: str = field()
    partition_result: list[PartitionResult] = field()


class ElectLeadersResponse(Response, api_key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """One result per partition; if all were requested, only those that needed an election."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field()
