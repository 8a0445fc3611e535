"""Batches to one partition: in order, five at a time, and the errors after trouble."""

from __future__ import annotations

import pytest

from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import produce
from pybroker.spark.errors import PipelineError
from pybroker.spark.wire.errors import BrokerError, ConnectionLostError
from pybroker.spark.wire.writer import WINDOW, PartitionWriter, WriteInterruptedError
from testing.scenes.scripted_broker import ScriptedCluster, produced, requests


def writer(cluster: ScriptedCluster) -> PartitionWriter:
    return PartitionWriter(cluster.client(), "t", 0)


def write(to: PartitionWriter, *offsets: int) -> None:
    for offset in offsets:
        to.write(memoryview(b"batch %d" % offset), Offset(offset))


def sent(cluster: ScriptedCluster) -> list[tuple[int, int]]:
    """Return node and number of each batch, in the order in which they were sent."""
    return [
        (node, int(bytes(one.topic_data[0].partition_data[0].records).split()[1]))
        for node, one in requests(cluster, produce.ProduceRequest)
    ]


def test_no_more_than_five_requests_are_in_flight() -> None:
    cluster = ScriptedCluster()
    cluster.leader = 2
    cluster.prepare(produce.ProduceRequest, *map(produced, range(8)))
    out = writer(cluster)
    write(out, *range(WINDOW))
    assert len(cluster.script[produce.ProduceRequest]) == 8
    write(out, 5, 6)
    assert len(cluster.script[produce.ProduceRequest]) == 6
    write(out, 7)
    out.finish()
    assert sent(cluster) == [(2, number) for number in range(8)]
    assert not cluster.script[produce.ProduceRequest]


@pytest.mark.parametrize(
    "trouble",
    [
        ConnectionLostError("gone"),
        produced(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        produced(-1, ErrorCode.NOT_ENOUGH_REPLICAS),
        produced(-1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_trouble_is_raised_and_nothing_is_sent_again(trouble: object) -> None:
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, produced(0), trouble)
    out = writer(cluster)
    write(out, 0, 1, 2, 3)
    with pytest.raises(WriteInterruptedError, match=r"gone|cannot write to t-0 at one:1,two:2: [A-Z_]+: "):
        out.finish()
    assert [number for _, number in sent(cluster)] == [0, 1, 2, 3]


def test_a_missing_broker_is_trouble_too() -> None:
    cluster = ScriptedCluster()
    cluster.refused = {1, 2}
    with pytest.raises(WriteInterruptedError, match="no broker at two:2: Connection refused"):
        write(writer(cluster), 0)


def test_an_offset_that_is_not_the_expected_one_means_another_writer() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, produced(0), produced(7))
    out = writer(cluster)
    write(out, 0, 1)
    with pytest.raises(PipelineError, match="t-0 at one:1,two:2 gave a batch the offset 7, not 1: another producer writes to it"):
        out.finish()


def test_an_error_that_a_retry_cannot_mend_is_raised_at_once() -> None:
    cluster = ScriptedCluster()
    cluster.prepare(produce.ProduceRequest, produced(-1, ErrorCode.INVALID_RECORD, "no key"))
    out = writer(cluster)
    write(out, 0)
    with pytest.raises(BrokerError, match="cannot write to t-0 at one:1,two:2: INVALID_RECORD: no key"):
        out.finish()
