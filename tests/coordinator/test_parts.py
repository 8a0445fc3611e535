"""The small parts: the metadata of consumers, records as bytes, the state table."""

from __future__ import annotations

import struct

import pytest

from pybroker.coordinator.classic.group import PREVIOUS_STATES, ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.embedded_protocol import subscribed_topics
from pybroker.coordinator.records import (
    CommittedOffset,
    from_bytes,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    to_bytes,
)
from pybroker.model import GenerationId, GroupId, LeaderEpoch, MemberId, Offset
from tests.coordinator.scenario import subscription


def test_topics_of_consumers() -> None:
    assert subscribed_topics([]) == frozenset()
    assert subscribed_topics([subscription("a,b"), subscription("b,c") + b"whatever a later version adds"]) == frozenset("abc")


@pytest.mark.parametrize("cut", range(len(subscription("abc,de")) - 4))
def test_metadata_that_is_no_consumers(cut: int) -> None:
    assert subscribed_topics([subscription("abc,de")[:cut]]) is None


def test_metadata_of_absurd_counts() -> None:
    assert subscribed_topics([struct.pack(">hi", 0, 2**31 - 1)]) is None
    assert subscribed_topics([struct.pack(">hih", 0, 1, -1)]) is None


GROUP = ClassicGroup(
    GroupId("g"), generation_id=GenerationId(3), protocol_type="consumer", protocol_name="range", state_since_ms=7
)
GROUP.add(
    ClassicMember(
        member_id=MemberId("m"), group_instance_id=None,
        client_id="c", client_host="/h", rebalance_timeout_ms=2, session_timeout_ms=1,
        protocol_type="consumer", protocols=(("range", b"\x01"),),
    ),
    None,
)  # fmt: skip

GOLDEN = [  # type and version of the key, of the value: as Kafka's formatters read them
    (offset_record(GroupId("g"), "t", 1, CommittedOffset(Offset(5), LeaderEpoch(2), "x", 6)), "0001 0001 67 0001 74 00000001",
     "0003 0000000000000005 00000002 0001 78 0000000000000006"),
    (offset_record(GroupId("g"), "t", 1, CommittedOffset(Offset(5), LeaderEpoch(2), "", 6, 9)), "0001 0001 67 0001 74 00000001",
     "0001 0000000000000005 0000 0000000000000006 0000000000000009"),
    (offset_tombstone(GroupId("g"), "t", 1), "0001 0001 67 0001 74 00000001", None),
    (group_record(GROUP, {MemberId("m"): b"\x02"}), "0002 0001 67",
     ("0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0001 6d 0000000000000007 00000001"
     "0001 6d ffff 0001 63 0002 2f68 00000002 00000001 00000001 01 00000001 02")),
    (group_tombstone(GroupId("g")), "0002 0001 67", None),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_records_are_kafkas(record: object, key: str, value: str | None) -> None:
    expected = (bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert to_bytes(record) == expected  # type: ignore[arg-type]
    read = from_bytes(*expected)
    assert read is not None
    assert to_bytes(read) == expected


def test_a_record_of_an_unknown_type() -> None:
    assert from_bytes(b"\x00\x63whatever", b"\x00\x00") is None


@pytest.mark.parametrize("state", GroupState)
def test_only_the_transitions_of_the_table(state: GroupState) -> None:
    for target in GroupState:
        group = ClassicGroup(GroupId("g"), state=state)
        if state in PREVIOUS_STATES[target]:
            group.transition_to(target, 5)
            assert (group.previous_state, group.state, group.state_since_ms) == (state, target, 5)
        else:
            with pytest.raises(AssertionError):
                group.transition_to(target, 5)
