"""Records of offsets are made and read without messages, and agree with what the messages make and read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.coordinator.committed import CommittedOffset, OffsetKey
from pybroker.coordinator.state.records import (
    from_bytes,
    offset_from_bytes,
    offset_key_from_bytes,
    offset_record,
    offset_tombstone,
    to_bytes,
)
from pybroker.model import GroupId, LeaderEpoch, Offset
from pybroker.protocol.codec import DecodeError, EncodeError, encode
from pybroker.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue

NAMES = st.text(max_size=300)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
COMMITTED = st.builds(CommittedOffset, INT64, INT32, NAMES, INT64, INT64)


def key_bytes(key: OffsetKey, type_id: int = 1) -> bytes:
    message = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
    return struct.pack(">h", type_id) + b"".join(encode(message, 0))  # type: ignore[arg-type]  # no late parts


def value_bytes(committed: CommittedOffset, version: int) -> bytes:
    message = OffsetCommitValue(
        offset=committed.offset, leader_epoch=committed.leader_epoch, metadata=committed.metadata,
        commit_timestamp=committed.commit_ms, expire_timestamp=committed.expire_ms,
    )  # fmt: skip
    return struct.pack(">h", version) + b"".join(encode(message, version))  # type: ignore[arg-type]  # no late parts


@given(st.builds(OffsetKey, NAMES, NAMES, INT32), COMMITTED)
def test_bytes_are_those_of_the_messages(key: OffsetKey, committed: CommittedOffset) -> None:
    record = offset_record(*key, committed)
    assert to_bytes(record) == (key_bytes(key), value_bytes(committed, 3 if committed.expire_ms == -1 else 1))
    assert to_bytes(offset_tombstone(*key)) == (key_bytes(key), None)
    if committed.expire_ms == -1:
        assert from_bytes(*to_bytes(record)) == record


@pytest.mark.parametrize("type_id", [0, 1])
@pytest.mark.parametrize("version", range(5))
@given(key=st.builds(OffsetKey, NAMES, NAMES, INT32), committed=COMMITTED)
def test_all_versions_are_read(type_id: int, version: int, key: OffsetKey, committed: CommittedOffset) -> None:
    read = from_bytes(key_bytes(key, type_id), value_bytes(committed, version))
    assert read is not None
    expected = committed._replace(
        leader_epoch=LeaderEpoch(committed.leader_epoch if version >= 3 else -1),
        expire_ms=committed.expire_ms if version == 1 else -1,
    )
    assert (read.type_id, read.key, read.value, read.value_version) == (type_id, key, expected, version)


KEY, VALUE = to_bytes(offset_record(GroupId("group"), "topic", 7, CommittedOffset(Offset(5), LeaderEpoch(2), "text", 6)))


@pytest.mark.parametrize("cut", range(2, len(KEY)))
def test_a_key_that_ends_too_early(cut: int) -> None:
    with pytest.raises((DecodeError, struct.error)):
        offset_key_from_bytes(KEY[:cut])


def test_a_key_that_goes_on() -> None:
    with pytest.raises(DecodeError):
        offset_key_from_bytes(KEY + b"\0")


def test_a_key_that_is_no_text() -> None:
    with pytest.raises(DecodeError):
        offset_key_from_bytes(KEY.replace(b"group", b"gr\xff\xffp"))


@pytest.mark.parametrize("cut", range(len(VALUE or b"")))
def test_a_value_that_ends_too_early(cut: int) -> None:
    assert VALUE is not None
    with pytest.raises((DecodeError, struct.error)):
        offset_from_bytes(VALUE[:cut])


@pytest.mark.parametrize("value", [b"\x00\x09" + bytes(30), (VALUE or b"").replace(b"text", b"te\xff\xff")])
def test_a_value_that_is_none(value: bytes) -> None:
    with pytest.raises(DecodeError):
        offset_from_bytes(value)


@pytest.mark.parametrize(
    "record",
    [
        offset_record(GroupId("g" * 70_000), "t", 0, CommittedOffset(Offset(0), LeaderEpoch(0), "", 0)),
        offset_record(GroupId("g" * 40_000), "t", 0, CommittedOffset(Offset(0), LeaderEpoch(0), "", 0)),
        offset_record(GroupId("g"), "t" * 40_000, 0, CommittedOffset(Offset(0), LeaderEpoch(0), "", 0)),
        offset_record(GroupId("g"), "t", 0, CommittedOffset(Offset(0), LeaderEpoch(0), "x" * 40_000, 0)),
        offset_record(GroupId("g"), "t", 0, CommittedOffset(Offset(2**63), LeaderEpoch(0), "", 0)),
    ],
)
def test_what_has_no_place(record: object) -> None:
    with pytest.raises(EncodeError):
        to_bytes(record)  # type: ignore[arg-type]
