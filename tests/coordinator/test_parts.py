"""The small parts: the metadata of consumers, records as bytes, the state table."""

from __future__ import annotations

import struct

import pytest

from pybroker.coordinator import embedded_protocol
from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.embedded_protocol import read_assignment, read_subscription, subscribed_topics
from pybroker.coordinator.state.classic_group import PREVIOUS_STATES, ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.coordinator.state.records import from_bytes, group_tombstone, offset_record, offset_tombstone, to_bytes
from pybroker.model import GenerationId, GroupId, LeaderEpoch, MemberId, Offset
from pybroker.protocol.codec import DecodeError
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


def listed(*names: str, count: int | None = None) -> bytes:
    """Return metadata that lists topics, and claims to list `count`."""
    head = struct.pack(">hi", 0, len(names) if count is None else count)
    return head + b"".join(struct.pack(">h", len(name)) + name.encode() for name in names)


def test_metadata_of_too_many_topics_counts_as_unreadable() -> None:
    most = embedded_protocol.NAMES_MAX
    assert subscribed_topics([struct.pack(">hi", 0, most) + bytes(2 * most)]) == frozenset([""])
    assert subscribed_topics([struct.pack(">hi", 0, most + 1) + bytes(2 * most + 2)]) is None
    assert subscribed_topics([struct.pack(">hi", 0, most) + bytes(2 * most), listed("t")]) is None


def test_metadata_of_too_long_names_counts_as_unreadable() -> None:
    long = ["x" * 32_000 + str(number) for number in range(embedded_protocol.NAME_BYTES_MAX // 32_000 + 1)]
    assert subscribed_topics([listed(*long[:-2])]) == frozenset(long[:-2])
    assert subscribed_topics([listed(*long)]) is None
    assert subscribed_topics([listed(*long[:40]), listed(*long[40:])]) is None


def test_topics_of_members_with_the_same_subscription_are_read_once() -> None:
    names = [f"topic-{number}" for number in range(1_000)]
    some = [listed(*names) + b"what the first one owns", listed(*names[:500]), listed(*names) + b"what another one owns"]
    assert subscribed_topics(some * 100) == frozenset(names)


def test_metadata_of_too_many_members_to_compare_counts_as_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_protocol, "COMPARED_BYTES_MAX", 100)
    assert subscribed_topics([listed("t")] * 10) == frozenset("t")
    assert subscribed_topics([listed("t")] * 100) is None


def test_what_one_member_of_a_consumer_group_sends_is_bounded() -> None:
    most = embedded_protocol.ELEMENTS_MAX
    user_data = struct.pack(">i", -1)
    assert len(read_subscription(struct.pack(">hi", 0, most) + bytes(2 * most) + user_data).topics) == most
    with pytest.raises(DecodeError):
        read_subscription(struct.pack(">hi", 0, most + 1) + bytes(2 * most + 2) + user_data)
    partitions = struct.pack(">hihi", 0, 1, 0, most) + bytes(4 * most) + user_data
    for read in (read_assignment, lambda data: read_subscription(struct.pack(">hii", 1, 0, -1) + data[2:-4])):
        with pytest.raises(DecodeError, match="elements"):
            read(partitions)
    with pytest.raises(DecodeError, match="bytes"):
        read_subscription(listed("t") + struct.pack(">i", embedded_protocol.BYTES_MAX) + bytes(embedded_protocol.BYTES_MAX))


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
