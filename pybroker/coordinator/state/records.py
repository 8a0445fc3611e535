"""The records of `__consumer_offsets`: how they are made from state, written to bytes and read back.

A key is the int16 of its record type, then a message; a value is the int16 of its version, then a message; see
`protocol/messages/group_records.py`. The broker writes what Kafka since 2.3 reads: offsets in version 3, or in version 1 when
they carry the expiry that a client from before 2.1 asked for, and groups in version 3.

Offsets have no messages, because there may be a million of them to load, and because each commit has some: this module makes and
reads their bytes. In state and in records they are an `OffsetKey` and a `CommittedOffset`.

    key     int16 type, string group, string topic, int32 partition
    value   int16 version, int64 offset, int32 leader epoch (v3), string metadata, int64 commit time, int64 expiry (v1)

Source: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde; OffsetCommitKey.json, OffsetCommitValue.json.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator import offset_loops
from pybroker.coordinator.committed import NO_TIMESTAMP, CommittedOffset, OffsetKey
from pybroker.coordinator.runtime.result import CoordinatorRecord
from pybroker.model import GroupId, LeaderEpoch, Offset
from pybroker.protocol.codec import DecodeError, EncodeError, decode, encode
from pybroker.protocol.messages.group_records import (
    RECORDS,
    GroupMetadataKey,
    OffsetCommitValue,
    RecordType,
)
from pybroker.records.entries import NO_HEADERS
from pybroker.records.varint import varint

if TYPE_CHECKING:
    from pybroker.model import ProducerId

_OFFSET_COMMIT: Final = RecordType.OFFSET_COMMIT
_OFFSET_TYPES: Final = (RecordType.LEGACY_OFFSET_COMMIT, RecordType.OFFSET_COMMIT)
OFFSET_PREFIX: Final = b"\x00\x01"
"""The bytes with which the key of a committed offset begins."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TWO_INT64: Final = struct.Struct(">qq")
_TYPE_AND_LENGTH: Final = struct.Struct(">hh")
_VALUE_HEAD: Final = struct.Struct(">hqih")  # version 3 up to the length of the metadata
_SHORT: Final = (-1, 0, 0, 0)  # stands for a value that is too short to be of version 3
_OLD_VALUE_HEAD: Final = struct.Struct(">hqh")  # of versions 0 to 2, which lack the leader epoch
_PLAIN_END: Final = struct.Struct(">iBhqi2xqx")  # partition, then size and value of version 3 without metadata, no headers
_pack_plain_end: Final = _PLAIN_END.pack
_PLAIN_SIZE: Final = (_VALUE_HEAD.size + _INT64.size) << 1  # as a varint
NAMES_MAX: Final = 1024
"""The number of groups with their topics whose bytes are kept, because a group commits the same topics again and again."""
_KEY_VERSION: Final = 0
_OFFSET_VERSION: Final = 3
_OFFSET_WITH_EXPIRY_VERSION: Final = 1


class OffsetsOfTopic:
    """The offsets that a group commits for partitions of one topic, by partition: the records of `offset_record`, as
    `BulkRecords`.
    """

    __slots__ = ("group_id", "offsets", "topic")

    def __init__(self, group_id: GroupId, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        self.group_id = group_id
        self.topic = topic
        self.offsets = offsets

    def ends(self) -> list[bytes]:
        """Return the bytes of each record that follow its offset. Raises EncodeError."""
        start, no_timestamp = _end_start(self.group_id, self.topic), NO_TIMESTAMP
        usual = offset_loops.usual_ends(start, self.offsets)
        if usual is not None:
            return usual
        try:
            return [
                start + _pack_plain_end(partition, _PLAIN_SIZE, _OFFSET_VERSION, offset, leader_epoch, commit_ms)
                if expire_ms == no_timestamp and not metadata
                else start + _long_end(partition, CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms))
                for partition, (offset, leader_epoch, metadata, commit_ms, expire_ms) in self.offsets.items()
            ]
        except struct.error as error:
            raise EncodeError(f"an offset cannot be written: {error}") from error

    def replay(self, shard: Any) -> None:
        """Replace the offsets that the group has committed for these partitions."""
        shard.replay_offsets(self.group_id, self.topic, self.offsets)


class PendingOffsetsOfTopic(OffsetsOfTopic):
    """The same in a transaction of a producer."""

    __slots__ = ("producer_id",)

    def __init__(self, group_id: GroupId, topic: str, offsets: Mapping[int, CommittedOffset], producer_id: ProducerId) -> None:
        self.group_id, self.topic, self.offsets, self.producer_id = group_id, topic, offsets, producer_id

    def replay(self, shard: Any) -> None:
        """Keep the offsets as pending, until the producer's transaction ends."""
        shard.replay_pending(self.producer_id, self.group_id, self.topic, self.offsets)


@functools.lru_cache(NAMES_MAX)
def _end_start(group_id: GroupId, topic: str) -> bytes:
    """Return what the ends of all records of a group's offsets in a topic begin with: the key up to the partition."""
    names = _names_bytes(group_id, topic)
    return varint(len(names) + _INT32.size) + names


def _long_end(partition: int, committed: CommittedOffset) -> bytes:
    """Return the end of a record whose value is not of the usual size."""
    value = _offset_bytes(committed)
    return b"".join((_INT32.pack(partition), varint(len(value)), value, NO_HEADERS))


def offset_record(group_id: GroupId, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """Return the record of a committed offset."""
    version = _OFFSET_VERSION if committed.expire_ms == NO_TIMESTAMP else _OFFSET_WITH_EXPIRY_VERSION
    return CoordinatorRecord(_OFFSET_COMMIT, OffsetKey(group_id, topic, partition), committed, version)


def offset_tombstone(group_id: GroupId, topic: str, partition: int) -> CoordinatorRecord:
    """Return the record that deletes an offset."""
    return CoordinatorRecord(_OFFSET_COMMIT, OffsetKey(group_id, topic, partition))


def group_tombstone(group_id: GroupId) -> CoordinatorRecord:
    """Return the record that deletes the group."""
    return CoordinatorRecord(RecordType.GROUP_METADATA, GroupMetadataKey(group=group_id))


def to_bytes(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as they lie in the log. Raises EncodeError."""
    if record.type_id == _OFFSET_COMMIT:
        return _offset_key_bytes(record.key), None if record.value is None else _offset_bytes(record.value)
    key = _INT16.pack(record.type_id) + _encoded(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _INT16.pack(record.value_version) + _encoded(record.value, record.value_version)


def least_size(record: CoordinatorRecord) -> int:
    """Return a size that the record has at least: the bytes in it that members have sent, which may be very many."""
    if record.value is None:
        return 0
    if record.type_id == RecordType.GROUP_METADATA:
        return sum(len(member.subscription) + len(member.assignment) for member in record.value.members)
    if record.type_id == RecordType.CONSUMER_GROUP_MEMBER_METADATA and record.value.classic_member_metadata is not None:
        return sum(len(protocol.metadata) for protocol in record.value.classic_member_metadata.supported_protocols)
    return 0


def from_bytes(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Read what `to_bytes` writes; return None for an unknown type of record. Raises DecodeError, struct.error."""
    (type_id,) = _INT16.unpack_from(key)
    if type_id in _OFFSET_TYPES:
        committed = None if value is None else offset_from_bytes(value)
        return CoordinatorRecord(type_id, offset_key_from_bytes(key), committed, -1 if value is None else value[1])
    classes = RECORDS.get(type_id)
    if classes is None:
        return None
    key_class, value_class = classes
    key_message: Any = decode(key_class, _KEY_VERSION, memoryview(key), _INT16.size)
    if value is None:
        return CoordinatorRecord(type_id, key_message)
    (version,) = _INT16.unpack_from(value)
    return CoordinatorRecord(type_id, key_message, decode(value_class, version, memoryview(value), _INT16.size), version)


def _offset_key_bytes(key: OffsetKey) -> bytes:
    return _names_bytes(key.group, key.topic) + _INT32.pack(key.partition)


def _names_bytes(group_id: GroupId, topic: str) -> bytes:
    """Return the key of an offset up to its partition. Raises EncodeError."""
    group, name = group_id.encode(), topic.encode()
    try:
        return _TYPE_AND_LENGTH.pack(_OFFSET_COMMIT, len(group)) + group + _INT16.pack(len(name)) + name
    except struct.error as error:
        raise EncodeError(f"an offset's key cannot be written: {error}") from error


def _offset_bytes(committed: CommittedOffset) -> bytes:
    offset, leader_epoch, text, commit_ms, expire_ms = committed
    metadata = text.encode()
    try:
        if expire_ms == NO_TIMESTAMP:
            head = _VALUE_HEAD.pack(_OFFSET_VERSION, offset, leader_epoch, len(metadata))
            return head + metadata + _INT64.pack(commit_ms)
        head = _OLD_VALUE_HEAD.pack(_OFFSET_WITH_EXPIRY_VERSION, offset, len(metadata))
        return head + metadata + _TWO_INT64.pack(commit_ms, expire_ms)
    except struct.error as error:
        raise EncodeError(f"an offset cannot be written: {error}") from error


def offset_key_from_bytes(key: bytes) -> OffsetKey:
    """Read the key of a committed offset. Raises DecodeError, struct.error."""
    _, size = _TYPE_AND_LENGTH.unpack_from(key)
    topic_at = _TYPE_AND_LENGTH.size + size + _INT16.size
    (topic_size,) = _INT16.unpack_from(key, topic_at - _INT16.size)
    if size < 0 or topic_size < 0 or topic_at + topic_size + _INT32.size != len(key):
        raise DecodeError(f"an offset's key of {len(key)} bytes with names of {size} and {topic_size}")
    (partition,) = _INT32.unpack_from(key, topic_at + topic_size)
    try:
        return OffsetKey(
            GroupId(key[_TYPE_AND_LENGTH.size : topic_at - _INT16.size].decode()),
            key[topic_at : topic_at + topic_size].decode(),
            partition,
        )
    except UnicodeDecodeError as error:
        raise DecodeError(f"an offset's key: {error}") from error


def offset_from_bytes(value: bytes) -> CommittedOffset:
    """Read the value of a committed offset. Raises DecodeError, struct.error."""
    version, offset, leader_epoch, size = _VALUE_HEAD.unpack_from(value) if len(value) >= _VALUE_HEAD.size else _SHORT
    if version != _OFFSET_VERSION or size < 0 or len(value) != _VALUE_HEAD.size + size + _INT64.size:
        return _offset_from_message(value)
    (commit_ms,) = _INT64.unpack_from(value, _VALUE_HEAD.size + size)
    try:
        metadata = value[_VALUE_HEAD.size : -_INT64.size].decode() if size else ""
    except UnicodeDecodeError as error:
        raise DecodeError(f"the text beside an offset: {error}") from error
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms)


def _offset_from_message(value: bytes) -> CommittedOffset:
    """Read a value of another version by its message; a damaged value raises its error here."""
    (version,) = _INT16.unpack_from(value)
    message = decode(OffsetCommitValue, version, memoryview(value), _INT16.size)
    return CommittedOffset(
        Offset(message.offset),
        LeaderEpoch(message.leader_epoch),
        message.metadata,
        message.commit_timestamp,
        message.expire_timestamp,
    )


def _encoded(message: Any, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]  # there are no records in it, hence no late parts
