"""Records of `__consumer_offsets`: made from state, written to bytes and read back.

A key is the int16 of its record type and a message, a value the int16 of its version and a message; see
`protocol/messages/group_records.py`. We write what Kafka since 2.3 reads: offsets in version 3, or in version 1 when they carry
the expiry that a client of before 2.1 asked for, and groups in version 3.

Source: GroupCoordinatorRecordHelpers, GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.coordinator.result import CoordinatorRecord
from pybroker.protocol.codec import decode, encode
from pybroker.protocol.messages.group_records import (
    RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordType,
)

if TYPE_CHECKING:
    from pybroker.coordinator.classic_group import ClassicGroup

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
_OFFSET_VERSION: Final = 3
_OFFSET_WITH_EXPIRY_VERSION: Final = 1
_GROUP_VERSION: Final = 3


class CommittedOffset(NamedTuple):
    """How far a group has read a partition. Times in ms; `expire_ms` is -1 when the broker's retention decides."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """A committed offset."""
    has_expiry = committed.expire_ms != NO_TIMESTAMP
    return CoordinatorRecord(
        RecordType.OFFSET_COMMIT,
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_ms,
            expire_timestamp=committed.expire_ms,
        ),
        _OFFSET_WITH_EXPIRY_VERSION if has_expiry else _OFFSET_VERSION,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The offset is gone."""
    return CoordinatorRecord(RecordType.OFFSET_COMMIT, OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group in its generation, with what each member is assigned."""
    return CoordinatorRecord(
        RecordType.GROUP_METADATA,
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in group.members.values()
            ],
        ),
        _GROUP_VERSION,
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The group is gone."""
    return CoordinatorRecord(RecordType.GROUP_METADATA, GroupMetadataKey(group=group_id))


def to_bytes(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they lie in the log. Raises EncodeError."""
    key = _INT16.pack(record.type_id) + _encoded(record.key, _KEY_VERSION)
    if record.value is None:
        return key, None
    return key, _INT16.pack(record.value_version) + _encoded(record.value, record.value_version)


def from_bytes(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """The inverse; None for a type of record that we do not know. Raises DecodeError, struct.error."""
    (type_id,) = _INT16.unpack_from(key)
    known = RECORDS.get(type_id)
    if known is None:
        return None
    key_class, value_class = known
    key_message: Any = decode(key_class, _KEY_VERSION, memoryview(key), _INT16.size)
    if value is None:
        return CoordinatorRecord(type_id, key_message)
    (version,) = _INT16.unpack_from(value)
    return CoordinatorRecord(type_id, key_message, decode(value_class, version, memoryview(value), _INT16.size), version)


def _encoded(message: Any, version: int) -> bytes:
    return b"".join(encode(message, version))  # type: ignore[arg-type]  # there are no records in it, hence no late parts
