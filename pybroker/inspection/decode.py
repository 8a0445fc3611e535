"""Text for keys, values and control records, and the records of `__consumer_offsets` decoded."""

from __future__ import annotations

import base64
import dataclasses
import struct
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.records import from_bytes
from pybroker.protocol.codec import DecodeError
from pybroker.protocol.messages.group_records import RecordType
from pybroker.records.control import ControlType, control_type_of, transaction_marker
from pybroker.records.errors import InvalidRecordError

if TYPE_CHECKING:
    from pybroker.records.batch import Record

BASE64: Final = "Base64"
_MARKERS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})


def text_of(data: bytes | None) -> str:
    """Return bytes in one line: as text where they are UTF-8 and printable, other bytes as `\\xNN`; null for None."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def json_of(name: str, data: bytes | None) -> dict[str, object]:
    """Return a field for JSON: `name` if the bytes are UTF-8, `nameBase64` otherwise."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + BASE64: base64.b64encode(data).decode()}


def control_fields(record: Record) -> dict[str, object]:
    """Return what a control record says, with Kafka's names."""
    try:
        kind = control_type_of(record.key)
        if kind not in _MARKERS:
            return {"controlType": kind.name}
        return {"endTxnMarker": kind.name, "coordinatorEpoch": transaction_marker(record).coordinator_epoch}
    except InvalidRecordError as error:
        return {"controlType": f"damaged ({error})"}


def offsets_fields(record: Record) -> dict[str, object]:
    """Return the fields of a record of `__consumer_offsets`: its type, its key and its value; the value is None where the
    record deletes.
    """
    try:
        found = from_bytes(record.key or b"", record.value)
    except (DecodeError, struct.error, ValueError) as error:
        return {"recordType": "unreadable", "error": str(error)}
    if found is None:
        return {"recordType": "unknown"}
    names = {one.value: one.name for one in RecordType}
    return {
        "recordType": names.get(found.type_id, str(found.type_id)),
        "recordKey": _plain(found.key),
        "recordValue": _plain(found.value),
    }


def _plain(value: Any) -> Any:
    """Return a message as objects that JSON knows."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one) for name, one in value._asdict().items()}
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
