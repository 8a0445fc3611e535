"""The versions that brokers serve and the description of a cluster, read from bytes."""

from __future__ import annotations

import struct

import pytest

from pybroker.tools.metadata import Broker, parsed
from pybroker.tools.versions import described


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def partition(index: int) -> bytes:
    return struct.pack(">hiii2ii", 0, index, 1, 2, 1, 2, 0) + b""


RESPONSE = b"".join(
    [
        struct.pack(">i", 2),
        struct.pack(">i", 1), text("kafka"), struct.pack(">i", 9092), text(None),
        struct.pack(">i", 2), text("other"), struct.pack(">i", 9093), text("r1"),
        text("an-id"),
        struct.pack(">i", 1),
        struct.pack(">i", 3),
        struct.pack(">h", 0), text("orders"), b"\0", struct.pack(">i", 2), partition(0), partition(1),
        struct.pack(">h", 0), text("__consumer_offsets"), b"\1", struct.pack(">i", 0),
        struct.pack(">h", 3), text("gone"), b"\0", struct.pack(">i", 0),
    ]
)  # fmt: skip


def test_metadata_is_read() -> None:
    found = parsed(RESPONSE)
    assert [str(broker) for broker in found.brokers] == ["kafka:9092 (id: 1 rack: null)", "other:9093 (id: 2 rack: r1)"]
    assert (found.cluster_id, found.topics) == ("an-id", [("orders", False), ("__consumer_offsets", True)])


@pytest.mark.parametrize("cut", range(len(RESPONSE)))
def test_every_truncation_is_refused(cut: int) -> None:
    with pytest.raises(struct.error):
        parsed(RESPONSE[:cut])


def test_a_broker_without_rack() -> None:
    assert str(Broker(1, "::1", 9092, None)) == "::1:9092 (id: 1 rack: null)"


def test_versions_are_described_as_kafka_describes_them() -> None:
    lines = described({0: (0, 13), 18: (4, 4), 1: (20, 21), 52: (0, 0), 999: (0, 1)}).split("\n")
    assert (lines[0], lines[-1]) == ("(", ")")
    assert lines[1] == "\tProduce(0): 0 to 13 [usable: 11],"
    assert lines[2] == "\tFetch(1): 20 to 21 [unusable: node too new],"
    assert lines[3] == "\tListOffsets(2): UNSUPPORTED,"
    assert "\tApiVersions(18): 4 [usable: 4]," in lines
    assert "\tVote(52): 0 [usable: 0]," in lines
    assert lines[-2] == "\tUNKNOWN(999): 0 to 1"
