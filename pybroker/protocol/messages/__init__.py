"""The messages: declarations only, one module per API.

Class names are those of Kafka's JSON definitions, attributes are its field names in snake_case. Fields and versions are those of
Kafka 4.4, and of 3.9 for what 4.0 dropped; `integration/test_protocol_declarations.py` compares them.
"""

from __future__ import annotations

from pybroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pybroker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pybroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from pybroker.protocol.messages.fetch import FetchRequest, FetchResponse
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pybroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pybroker.protocol.messages.produce import ProduceRequest, ProduceResponse

MESSAGES: tuple[tuple[type, type], ...] = (
    (ProduceRequest, ProduceResponse),
    (FetchRequest, FetchResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (MetadataRequest, MetadataResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)
"""Request and response of every API that this package can speak, in order of their keys."""
