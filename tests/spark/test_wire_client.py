"""The wire client against scripted brokers: which broker it asks, what it retries, and what it reports in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import fetch, list_offsets, produce
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.client import COMMITTED, LATEST, parse_addresses
from pybroker.spark.wire.errors import BrokerError, ConnectionLostError
from testing.scenes.scripted_broker import ID_A, ID_B, ScriptedCluster, fetched, listed, produced, requests

BATCH = bytes(build_batch([Record(Offset(0), 1, b"k", b"v")]))
KNOWN_BATCH = bytes(
    build_batch([Record(Offset(0), 1, b"k", b"v")], producer_id=ProducerId(7), producer_epoch=ProducerEpoch(0), base_sequence=0)
)


def test_a_fetch_goes_to_the_leader_by_the_topics_id_and_gives_what_lies_there() -> None:
    cluster = ScriptedCluster()
    cluster.leader = 2
    cluster.prepare(fetch.FetchRequest, fetched(records=BATCH))
    found = cluster.client().fetch("t", 0, offset=Offset(3), max_bytes=100, isolation=COMMITTED)
    assert bytes(found.data) == BATCH
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset, found.aborted) == (9, 8, 1, ((5, 2),))
    [(node, request)] = requests(cluster, fetch.FetchRequest)
    assert node == 2
    assert (request.topics[0].topic_id, request.topics[0].topic, request.isolation_level) == (ID_A, "", 1)
    assert request.topics[0].partitions[0].fetch_offset == 3
    assert not found.data.readonly


def test_an_older_broker_is_asked_by_name() -> None:
    cluster = ScriptedCluster()
    cluster.version = 12
    cluster.prepare(fetch.FetchRequest, fetched())
    cluster.client().fetch("t", 0, offset=Offset(0))
    [(_, request)] = requests(cluster, fetch.FetchRequest)
    assert (request.topics[0].topic, request.topics[0].topic_id) == ("t", bytes(16))


def test_a_leader_that_moved_is_followed() -> None:
    cluster = ScriptedCluster()

    def move(cluster: ScriptedCluster = cluster) -> list_offsets.ListOffsetsResponse:
        cluster.leader = 2
        return listed(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    client = cluster.client()
    client.topic("t")
    cluster.prepare(list_offsets.ListOffsetsRequest, move(), listed(42))
    assert client.list_offset("t", 0, timestamp=LATEST) == 42
    assert [node for node, _ in requests(cluster, list_offsets.ListOffsetsRequest)] == [1, 2]


def test_a_lost_connection_is_made_again() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(list_offsets.ListOffsetsRequest, ConnectionLostError("gone"), ConnectionLostError("gone"), listed(42))
    assert cluster.client().list_offset("t", 0, timestamp=LATEST) == 42
    assert cluster.pauses == [0.05, 0.1]


def test_another_address_is_used_when_the_first_does_not_respond() -> None:
    cluster = ScriptedCluster()
    cluster.refused = {1}
    assert cluster.client().cluster_id() == "cluster"
    assert [node for node, _ in cluster.asked] == [2]


def test_it_gives_up_after_a_while_and_reports_what_happened() -> None:
    cluster = ScriptedCluster()
    cluster.refused = {1, 2}
    with pytest.raises(
        PipelineError, match="no broker at two:2: Connection refused, for 10 s; run the same command again to continue"
    ):
        cluster.client().cluster_id()
    assert 9 < cluster.now <= 10


def test_an_error_that_stays_is_raised_at_once_with_its_name() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(fetch.FetchRequest, fetched(ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(BrokerError, match=r"t-0 at one:1,two:2 cannot be read from offset 3: OFFSET_OUT_OF_RANGE: ") as raised:
        cluster.client().fetch("t", 0, offset=Offset(3))
    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.pauses == []


def test_the_brokers_own_message_is_reported_in_one_line() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, produced(-1, ErrorCode.MESSAGE_TOO_LARGE, "too large\nby far"))
    with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE: too large$"):
        cluster.client().produce("t", 0, BATCH)


def test_an_unknown_error_is_reported_by_its_number() -> None:
    assert str(BrokerError("it fails", 9999)) == "it fails: error 9999"


def test_a_batch_of_an_idempotent_producer_is_sent_again_another_is_not() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, ConnectionLostError("gone"), produced(4))
    assert cluster.client().produce("t", 0, KNOWN_BATCH) == 4
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, ConnectionLostError("gone"), produced(4))
    with pytest.raises(PipelineError, match="it is not known whether the batch has arrived"):
        cluster.client().produce("t", 0, BATCH)
    assert len(requests(cluster, produce.ProduceRequest)) == 1


def test_a_topic_that_was_created_again_is_another_topic() -> None:
    cluster = ScriptedCluster()
    client = cluster.client()
    client.topic("t")
    cluster.topic_id = ID_B
    cluster.prepare(fetch.FetchRequest, fetched(ErrorCode.UNKNOWN_TOPIC_ID))
    with pytest.raises(PipelineError, match="topic t at one:1,two:2 was deleted and created again while the job ran"):
        client.fetch("t", 0, offset=Offset(0))


def gone_before(cluster: ScriptedCluster) -> None:
    cluster.is_topic_there = False


def gone_meanwhile(cluster: ScriptedCluster) -> None:
    cluster.prepare(fetch.FetchRequest, fetched(ErrorCode.UNKNOWN_TOPIC_ID))


@pytest.mark.parametrize("how", [gone_before, gone_meanwhile])
def test_a_missing_topic_is_waited_for_a_little(how: Callable[[ScriptedCluster], None]) -> None:
    cluster = ScriptedCluster()
    client = cluster.client(retry_s=60)
    if how is gone_meanwhile:
        client.topic("t")
    how(cluster)
    cluster.is_topic_there = False
    with pytest.raises(PipelineError, match=r"^no topic t at one:1,two:2$"):
        client.fetch("t", 0, offset=Offset(0))
    assert 4 < cluster.now < 8


def test_a_missing_partition_is_reported() -> None:
    with pytest.raises(PipelineError, match="topic t at one:1,two:2 has 1 partitions, so it has no partition 3"):
        ScriptedCluster().client().list_offset("t", 3, timestamp=LATEST)


def test_addresses() -> None:
    assert parse_addresses("a:1, [::1]:2") == [("a", 1), ("::1", 2)]
    for wrong in ("a", "a:", ":1", "a:b", "a:1,", "a:0", "a:70000"):
        with pytest.raises(PipelineError, match="must be HOST:PORT"):
            parse_addresses(wrong)
