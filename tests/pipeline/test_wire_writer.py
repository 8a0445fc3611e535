"""Batches to one partition: in order, five at a time, and again after trouble."""

from __future__ import annotations

import pytest

from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.wire.errors import BrokerError, ConnectionLostError
from pybroker.pipeline.wire.writer import WINDOW, PartitionWriter
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import produce
from tests.pipeline.scripted_broker import Cluster, produced, requests


def writer(cluster: Cluster) -> PartitionWriter:
    client = cluster.client()
    client.topic("t")
    return PartitionWriter(client, "t", 0, retry_s=10, sleep=cluster.sleep, clock=lambda: cluster.now)


def write(to: PartitionWriter, *offsets: int) -> None:
    for offset in offsets:
        to.write(memoryview(b"batch %d" % offset), offset)


def sent(cluster: Cluster) -> list[tuple[int, int]]:
    """Node and number of each batch, as they were sent."""
    return [
        (node, int(bytes(one.topic_data[0].partition_data[0].records).split()[1]))
        for node, one in requests(cluster, produce.ProduceRequest)
    ]


def test_no_more_than_five_are_on_their_way() -> None:
    cluster = Cluster()
    cluster.say(produce.ProduceRequest, *map(produced, range(8)))
    out = writer(cluster)
    write(out, *range(WINDOW))
    assert len(cluster.script[produce.ProduceRequest]) == 8
    write(out, 5, 6)
    assert len(cluster.script[produce.ProduceRequest]) == 6
    write(out, 7)
    out.finish()
    assert sent(cluster) == [(1, number) for number in range(8)]
    assert not cluster.script[produce.ProduceRequest]


def test_all_without_an_answer_are_sent_again_in_order() -> None:
    cluster = Cluster()
    cluster.say(produce.ProduceRequest, produced(0), ConnectionLostError("gone"), produced(1), produced(2), produced(3))
    out = writer(cluster)
    write(out, 0, 1, 2, 3)
    out.finish()
    assert [number for _, number in sent(cluster)] == [0, 1, 2, 3, 1, 2, 3]


def test_a_leader_that_moved_is_followed() -> None:
    cluster = Cluster()
    cluster.say(produce.ProduceRequest, produced(0), produced(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), produced(1), produced(2))
    out = writer(cluster)
    write(out, 0, 1, 2)
    cluster.leader = 2
    out.finish()
    assert sent(cluster)[-2:] == [(2, 1), (2, 2)]


def test_an_offset_that_is_not_the_expected_one_means_another_writer() -> None:
    cluster = Cluster()
    cluster.say(produce.ProduceRequest, produced(0), produced(7))
    out = writer(cluster)
    write(out, 0, 1)
    with pytest.raises(PipelineError, match="t-0 at one:1,two:2 gave a batch offset 7, not 1: someone else writes to it"):
        out.finish()


def test_what_does_not_help_is_not_tried_again() -> None:
    cluster = Cluster()
    cluster.say(produce.ProduceRequest, produced(-1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    out = writer(cluster)
    write(out, 0)
    with pytest.raises(BrokerError, match="cannot write to t-0 at one:1,two:2: OUT_OF_ORDER_SEQUENCE_NUMBER"):
        out.finish()


def test_it_gives_up_after_a_while_without_any_answer() -> None:
    cluster = Cluster()
    out = writer(cluster)
    write(out, 0)
    cluster.say(produce.ProduceRequest, ConnectionLostError("gone"))
    cluster.refused = {1, 2}
    with pytest.raises(PipelineError, match="no broker at h:2: Connection refused, for 10 s"):
        out.finish()
    assert 9 < cluster.now <= 11
