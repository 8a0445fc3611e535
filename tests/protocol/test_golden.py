"""Bytes that Kafka's own classes wrote: kafka-clients 3.9.2 for the versions that Kafka 4 dropped, 4.4.0 for the others."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.protocol.codec import decode, encode
from pybroker.protocol.messages import api_versions as av
from pybroker.protocol.messages import create_topics as ct
from pybroker.protocol.messages import delete_topics as dt
from pybroker.protocol.messages import describe_cluster as dc
from pybroker.protocol.messages import describe_topic_partitions as dp
from pybroker.protocol.messages import fetch as f
from pybroker.protocol.messages import find_coordinator as fc
from pybroker.protocol.messages import init_producer_id as ip
from pybroker.protocol.messages import list_offsets as lo
from pybroker.protocol.messages import metadata as m
from pybroker.protocol.messages import produce as p
from pybroker.protocol.parts import parts_bytes

ID = bytes.fromhex("00112233445566778899aabbccddeeff")
RECORDS = bytes([1, 2, 3, 4, 5])

PRODUCE = [p.PartitionProduceData(index=2, records=RECORDS), p.PartitionProduceData(index=3, records=None)]
FETCHED = f.PartitionData(
    partition_index=1,
    error_code=3,
    high_watermark=88,
    last_stable_offset=87,
    log_start_offset=2,
    aborted_transactions=[f.AbortedTransaction(producer_id=1, first_offset=2)],
    preferred_read_replica=7,
    records=RECORDS,
)
FETCHED_TAGS = f.PartitionData(
    partition_index=1,
    error_code=3,
    high_watermark=88,
    last_stable_offset=87,
    log_start_offset=2,
    diverging_epoch=f.EpochEndOffset(epoch=1, end_offset=2),
    snapshot_id=f.SnapshotId(end_offset=5),
    aborted_transactions=[f.AbortedTransaction(producer_id=1, first_offset=2)],
    preferred_read_replica=7,
    records=RECORDS,
)
FETCHED_OLD = f.PartitionData(partition_index=1, error_code=3, high_watermark=88, aborted_transactions=[], records=RECORDS)
FETCH = f.FetchPartition(partition=1, fetch_offset=77, partition_max_bytes=1024)

GOLDEN: list[tuple[int, Any, str]] = [
    (
        0,
        p.ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[p.TopicProduceData(name="top", partition_data=PRODUCE)]),
        "ffff 000005dc 00000001 0003 746f70 00000002 00000002 00000005 0102030405 00000003 ffffffff",
    ),
    (
        3,
        p.ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1500,
            topic_data=[p.TopicProduceData(name="top", partition_data=PRODUCE)],
        ),
        "0002 7478 ffff 000005dc 00000001 0003 746f70 00000002 00000002 00000005 0102030405 00000003 ffffffff",
    ),
    (
        13,
        p.ProduceRequest(
            transactional_id="tx",
            acks=-1,
            timeout_ms=1500,
            topic_data=[p.TopicProduceData(topic_id=ID, partition_data=PRODUCE[:1])],
        ),
        "03 7478 ffff 000005dc 02 00112233445566778899aabbccddeeff 02 00000002 06 0102030405 00 00 00",
    ),
    (
        10,
        p.ProduceResponse(
            throttle_time_ms=4,
            responses=[
                p.TopicProduceResponse(
                    name="top",
                    partition_responses=[
                        p.PartitionProduceResponse(
                            index=2,
                            error_code=6,
                            base_offset=-1,
                            error_message="no",
                            current_leader=p.LeaderIdAndEpoch(leader_id=5, leader_epoch=6),
                            record_errors=[p.BatchIndexAndErrorMessage(batch_index=1)],
                        )
                    ],
                )
            ],
            node_endpoints=[p.NodeEndpoint(node_id=5, host="h", port=9092, rack="r")],
        ),
        (
            "02 04746f70 02 00000002 0006 ffffffffffffffff ffffffffffffffff ffffffffffffffff 02 00000001 00 00 036e6f"
            "01 00 09 00000005 00000006 00 00 00000004 01 00 0e 02 00000005 0268 00002384 0272 00"
        ),
    ),
    (
        0,
        f.FetchRequest(max_wait_ms=100, min_bytes=1, topics=[f.FetchTopic(topic="top", partitions=[FETCH])]),
        "ffffffff 00000064 00000001 00000001 0003 746f70 00000001 00000001 000000000000004d 00000400",
    ),
    (
        3,
        f.FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=5000, topics=[f.FetchTopic(topic="top", partitions=[FETCH])]),
        "ffffffff 00000064 00000001 00001388 00000001 0003 746f70 00000001 00000001 000000000000004d 00000400",
    ),
    (
        18,
        f.FetchRequest(
            cluster_id="c",
            replica_state=f.ReplicaState(replica_id=3, replica_epoch=4),
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=5000,
            isolation_level=1,
            session_id=11,
            session_epoch=12,
            rack_id="r",
            topics=[
                f.FetchTopic(
                    topic_id=ID,
                    partitions=[
                        f.FetchPartition(
                            partition=1, fetch_offset=77, partition_max_bytes=1024, replica_directory_id=ID, high_watermark=10
                        ),
                        f.FetchPartition(partition=2, current_leader_epoch=8),
                    ],
                )
            ],
            forgotten_topics_data=[f.ForgottenTopic(topic_id=ID, partitions=[4, 5])],
        ),
        (
            "00000064 00000001 00001388 01 0000000b 0000000c 02 00112233445566778899aabbccddeeff 03"
            "00000001 ffffffff 000000000000004d ffffffff ffffffffffffffff 00000400"
            "02 00 10 00112233445566778899aabbccddeeff 01 08 000000000000000a"
            "00000002 00000008 0000000000000000 ffffffff ffffffffffffffff 00000000 00 00"
            "02 00112233445566778899aabbccddeeff 03 00000004 00000005 00 02 72 02 00 02 02 63 01 0d 00000003 0000000000000004 00"
        ),
    ),
    (
        0,
        f.FetchResponse(responses=[f.FetchableTopicResponse(topic="top", partitions=[FETCHED_OLD])]),
        "00000001 0003 746f70 00000001 00000001 0003 0000000000000058 00000005 0102030405",
    ),
    (
        3,
        f.FetchResponse(throttle_time_ms=9, responses=[f.FetchableTopicResponse(topic="top", partitions=[FETCHED_OLD])]),
        "00000009 00000001 0003 746f70 00000001 00000001 0003 0000000000000058 00000005 0102030405",
    ),
    (
        11,
        f.FetchResponse(
            throttle_time_ms=9, session_id=3, responses=[f.FetchableTopicResponse(topic="top", partitions=[FETCHED])]
        ),
        (
            "00000009 0000 00000003 00000001 0003 746f70 00000001 00000001 0003 0000000000000058 0000000000000057"
            "0000000000000002 00000001 0000000000000001 0000000000000002 00000007 00000005 0102030405"
        ),
    ),
    (
        12,
        f.FetchResponse(
            throttle_time_ms=9, session_id=3, responses=[f.FetchableTopicResponse(topic="top", partitions=[FETCHED_TAGS])]
        ),
        (
            "00000009 0000 00000003 02 04746f70 02 00000001 0003 0000000000000058 0000000000000057 0000000000000002"
            "02 0000000000000001 0000000000000002 00 00000007 06 0102030405"
            "02 00 0d 00000001 0000000000000002 00 02 0d 0000000000000005 ffffffff 00 00 00"
        ),
    ),
    (
        0,
        lo.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                lo.ListOffsetsTopic(
                    name="top", partitions=[lo.ListOffsetsPartition(partition_index=1, timestamp=-2, max_num_offsets=7)]
                )
            ],
        ),
        "ffffffff 00000001 0003 746f70 00000001 00000001 fffffffffffffffe 00000007",
    ),
    (
        11,
        lo.ListOffsetsRequest(
            replica_id=-1,
            timeout_ms=50,
            topics=[
                lo.ListOffsetsTopic(
                    name="top", partitions=[lo.ListOffsetsPartition(partition_index=1, timestamp=-3, current_leader_epoch=2)]
                )
            ],
        ),
        "ffffffff 00 02 04746f70 02 00000001 00000002 fffffffffffffffd 00 00 00000032 00",
    ),
    (
        0,
        lo.ListOffsetsResponse(
            topics=[
                lo.ListOffsetsTopicResponse(
                    name="top",
                    partitions=[lo.ListOffsetsPartitionResponse(partition_index=1, old_style_offsets=[500, 20])],
                )
            ]
        ),
        "00000001 0003 746f70 00000001 00000001 0000 00000002 00000000000001f4 0000000000000014",
    ),
    (1, m.MetadataRequest(topics=None), "ffffffff"),
    (
        13,
        m.MetadataResponse(
            controller_id=1,
            brokers=[m.MetadataResponseBroker(node_id=1, host="héé", port=9092)],
            topics=[
                m.MetadataResponseTopic(
                    name=None,
                    topic_id=ID,
                    error_code=100,
                    partitions=[
                        m.MetadataResponsePartition(
                            partition_index=4, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3, 4, 5, 6, 7, 8, 9]
                        )
                    ],
                )
            ],
        ),
        (
            "00000000 02 00000001 06 68c3a9c3a9 00002384 00 00 00 00000001 02 0064 00 00112233445566778899aabbccddeeff 00 02"
            "0000 00000004 00000001 ffffffff 04 00000001 00000002 00000003 0a 00000001 00000002 00000003 00000004 00000005"
            "00000006 00000007 00000008 00000009 01 00 80000000 00 0000 00"
        ),
    ),
    (
        3,
        av.ApiVersionsResponse(
            api_keys=[av.ApiVersion(api_key=18, max_version=5)],
            supported_features=[av.SupportedFeatureKey(name="f", min_version=1, max_version=2)],
            finalized_features_epoch=3,
            zk_migration_ready=True,
        ),
        "0000 02 0012 0000 0005 00 00000000 03 00 08 02 0266 0001 0002 00 01 08 0000000000000003 03 01 01",
    ),
    (
        0,
        ct.CreateTopicsRequest(
            timeout_ms=1000,
            topics=[
                ct.CreatableTopic(
                    name="top",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
                    configs=[ct.CreatableTopicConfig(name="k", value=None)],
                )
            ],
        ),
        "00000001 0003 746f70 ffffffff ffff 00000001 00000000 00000002 00000001 00000002 00000001 0001 6b ffff 000003e8",
    ),
    (7, ct.CreateTopicsResponse(), "00000000 01 00"),
    (0, dt.DeleteTopicsRequest(topic_names=["a", "bc"], timeout_ms=5), "00000002 0001 61 0002 6263 00000005"),
    (
        6,
        ip.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60000, enable2_pc=True),
        "0274 0000ea60 ffffffffffffffff ffff 01 00 00",
    ),
    (2, dc.DescribeClusterRequest(include_fenced_brokers=True), "00 01 01 00"),
    (
        0,
        dp.DescribeTopicPartitionsRequest(topics=[dp.TopicRequest(name="x" * 130)]),
        "02 8301" + "78" * 130 + "00 000007d0 ff 00",
    ),
    (
        0,
        dp.DescribeTopicPartitionsResponse(next_cursor=dp.Cursor(topic_name="n", partition_index=3)),
        "00000000 01 01 026e 00000003 00 00",
    ),
    (0, dp.DescribeTopicPartitionsResponse(), "00000000 01 ff 00"),
    (6, fc.FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), "01 03 0261 0262 00"),
]


@pytest.mark.parametrize(("version", "message", "data"), GOLDEN, ids=[f"{type(one).__name__}-v{v}" for v, one, _ in GOLDEN])
def test_the_bytes_are_those_of_kafka(version: int, message: Any, data: str) -> None:
    wire = bytes.fromhex(data)
    assert parts_bytes(encode(message, version)).hex() == wire.hex()
    assert parts_bytes(encode(decode(type(message), version, memoryview(wire)), version)) == wire
