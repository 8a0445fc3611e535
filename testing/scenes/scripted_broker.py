"""Brokers that follow a script, for tests of our protocol client."""

from __future__ import annotations

from collections import deque
from typing import Any

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import fetch, list_offsets, metadata, produce
from pybroker.spark.wire.client import WireClient
from pybroker.spark.wire.errors import ConnectionLostError

ID_A, ID_B = b"a" * 16, b"b" * 16
Response = Any


class ScriptedCluster:
    """Two nodes. Each request gets the next response of its class from `script`; an exception in the script is raised."""

    def __init__(self) -> None:
        self.leader, self.topic_id, self.version = 1, ID_A, 15
        self.is_topic_there = True
        self.script: dict[type, deque[Response]] = {}
        self.asked: list[tuple[int, Any]] = []
        self.now, self.pauses = 0.0, list[float]()
        self.refused: set[int] = set()

    def client(self, retry_s: float = 10.0) -> WireClient:
        return WireClient("one:1,two:2", retry_s=retry_s, connect=self.connect, sleep=self.sleep, clock=lambda: self.now)

    def connect(self, host: str, port: int) -> Peer:
        if port in self.refused:
            raise ConnectionLostError(f"no broker at {host}:{port}: Connection refused")
        return Peer(self, port)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def prepare(self, cls: type, *responses: Response) -> None:
        self.script.setdefault(cls, deque()).extend(responses)

    def metadata(self) -> metadata.MetadataResponse:
        partition = metadata.MetadataResponsePartition(error_code=0, partition_index=0, leader_id=self.leader)
        error = 0 if self.is_topic_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return metadata.MetadataResponse(
            brokers=[metadata.MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
            cluster_id="cluster",
            controller_id=2,
            topics=[metadata.MetadataResponseTopic(error_code=error, name="t", topic_id=self.topic_id, partitions=[partition])],
        )


class Peer:
    """A connection to one node."""

    def __init__(self, cluster: ScriptedCluster, node: int) -> None:
        self.cluster, self.node, self.is_closed = cluster, node, False
        self.waiting: deque[Any] = deque()

    def version_of(self, api_key: int) -> int:
        return self.cluster.version

    def send(self, request: Any) -> None:
        assert not self.is_closed
        self.cluster.asked.append((self.node, request))
        self.waiting.append(request)

    def receive(self) -> Any:
        request = self.waiting.popleft()
        if isinstance(request, metadata.MetadataRequest):
            return self.cluster.metadata()
        response = self.cluster.script[type(request)].popleft()
        if isinstance(response, Exception):
            raise response
        return response

    def call(self, request: Any) -> Any:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self.is_closed = True


def fetched(error: int = 0, records: bytes = b"") -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=1,
        aborted_transactions=[fetch.AbortedTransaction(producer_id=5, first_offset=2)],
        records=memoryview(bytearray(records)),
    )
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[partition])])


def listed(offset: int, error: int = 0) -> list_offsets.ListOffsetsResponse:
    partition = list_offsets.ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=[partition])])


def produced(offset: int, error: int = 0, message: str | None = None) -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(index=0, error_code=error, base_offset=offset, error_message=message)
    return produce.ProduceResponse(responses=[produce.TopicProduceResponse(name="t", partition_responses=[partition])])


def requests(cluster: ScriptedCluster, cls: type) -> list[tuple[int, Any]]:
    return [(node, one) for node, one in cluster.asked if type(one) is cls]
