"""The value of a metadata record: three varints in front of its message.

    uvarint frame version (1) | uvarint type | uvarint version of the message | message

Source: AbstractApiMessageSerde, MetadataRecordSerde.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pybroker.protocol.codec import DecodeError, decode, encode
from pybroker.protocol.messages.metadata_records import METADATA_RECORDS, MetadataRecordType
from pybroker.protocol.wire import read_uvarint, uvarint

FRAME_VERSION: Final = 1
_TYPES: Final = {cls: record_type for record_type, cls in METADATA_RECORDS.items()}
_NAMES: Final = {int(one) for one in MetadataRecordType}


class MetadataRecord(NamedTuple):
    """One record. `message` is None for a type whose content this broker does not use."""

    record_type: int
    message: Any


def from_bytes(value: bytes | None) -> MetadataRecord:
    """Read the value of a record. Raises DecodeError, also for a type that no supported Kafka has."""
    if value is None:
        raise DecodeError("a metadata record has no value")
    try:
        frame, position = read_uvarint(value, 0)
        record_type, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError as error:
        raise DecodeError("a metadata record ends too early") from error
    if frame != FRAME_VERSION:
        raise DecodeError(f"a metadata record has the frame version {frame}, not {FRAME_VERSION}")
    if record_type not in _NAMES:
        raise DecodeError(f"a metadata record has the unknown type {record_type}")
    cls = METADATA_RECORDS.get(MetadataRecordType(record_type))
    if cls is None:
        return MetadataRecord(record_type, None)
    return MetadataRecord(record_type, decode(cls, version, memoryview(value), position))


def to_bytes(message: object, version: int) -> bytes:
    """Return the value of a record with this message. Raises EncodeError."""
    head = uvarint(FRAME_VERSION) + uvarint(_TYPES[type(message)]) + uvarint(version)
    return head + b"".join(encode(message, version))  # type: ignore[arg-type]  # there are no records in it, hence no late parts
