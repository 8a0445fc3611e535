"""Decodes the records of Kafka's internal logs, in the form in which Kafka's own DumpLogSegments prints them.

A decoder returns the fields that stand in place of key and payload. A record that cannot be decoded, or of which the type or the
version is unknown, keeps its bytes, with a field that shows why.

    offsets         `__consumer_offsets`: committed offsets, classic groups and KIP-848 groups
    transactions    `__transaction_state`
    metadata        `__cluster_metadata` and its snapshots

Source: kafka.tools.DumpLogSegments.{OffsetsMessageParser, TransactionLogMessageParser, ClusterMetadataLogMessageParser}.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Final

from pybroker.inspection.message_json import as_json
from pybroker.inspection.text import json_of
from pybroker.protocol.codec import DecodeError, decode
from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pybroker.protocol.messages.group_records import RECORDS, RecordType
from pybroker.protocol.messages.metadata_records import METADATA_RECORDS, MetadataRecordType
from pybroker.protocol.messages.other_metadata_records import OTHER_METADATA_RECORDS
from pybroker.protocol.messages.quorum_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from pybroker.protocol.messages.transaction_records import TRANSACTION_RECORDS
from pybroker.protocol.schema import schema_of
from pybroker.protocol.wire import read_uvarint
from pybroker.records.control import ControlType, control_type_of, transaction_marker
from pybroker.records.errors import InvalidRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pybroker.records.batch import Record

Fields = dict[str, object]

_INT16: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0
_FRAME_VERSION: Final = 1
_CONSUMER: Final = "consumer"
_MARKERS: Final = frozenset({ControlType.COMMIT, ControlType.ABORT})
_OF_QUORUM: Final[dict[ControlType, tuple[str, type]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}
_METADATA: Final = {**METADATA_RECORDS, **OTHER_METADATA_RECORDS}
_NAMES: Final = {int(one): f"{one.name}_RECORD" for one in MetadataRecordType}
_DAMAGE: Final = (DecodeError, struct.error, IndexError, UnicodeDecodeError)


def control_fields(record: Record) -> Fields:
    """Return what a control record contains, with Kafka's names."""
    try:
        kind = control_type_of(record.key)
        if kind in _MARKERS:
            return {"endTxnMarker": kind.name, "coordinatorEpoch": transaction_marker(record).coordinator_epoch}
        if kind not in _OF_QUORUM or record.value is None:
            return {"controlType": kind.name}
        name, cls = _OF_QUORUM[kind]
        version = min(_INT16.unpack_from(record.value)[0], schema_of(cls).versions.highest)
        return {name: as_json(decode(cls, version, memoryview(record.value)), version)}
    except (InvalidRecordError, *_DAMAGE) as error:
        return {"controlType": f"damaged ({error})"}


def offsets_fields(record: Record) -> Fields:
    """Return the fields of a record of `__consumer_offsets`."""
    fields = _keyed(record, RECORDS)
    payload = fields.get("payload")
    if isinstance(payload, dict) and payload["data"].get("protocolType") == _CONSUMER:
        for member in payload["data"]["members"]:
            _decode_embedded(member, "subscription", ConsumerProtocolSubscription)
            _decode_embedded(member, "assignment", ConsumerProtocolAssignment)
    return fields


def transactions_fields(record: Record) -> Fields:
    """Return the fields of a record of `__transaction_state`."""
    return _keyed(record, TRANSACTION_RECORDS)


def metadata_fields(record: Record) -> Fields:
    """Return the fields of a record of `__cluster_metadata`."""
    value = record.value
    if value is None:
        return _undecoded(record, "a metadata record has no value")
    try:
        frame, position = read_uvarint(value, 0)
        record_type, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        if frame != _FRAME_VERSION or record_type not in _NAMES:
            return _undecoded(record, f"frame version {frame}, record type {record_type}, version {version}: unknown")
        message: object = decode(_METADATA[MetadataRecordType(record_type)], version, memoryview(value), position)
    except _DAMAGE as error:
        return _undecoded(record, str(error))
    return {"payload": {"type": _NAMES[record_type], "version": version, "data": as_json(message, version)}}


def _keyed(record: Record, classes: Mapping[RecordType, tuple[type, type]] | Mapping[int, tuple[type, type]]) -> Fields:
    """Return the fields of a record whose key and value begin with the numbers of their forms."""
    key, value = record.key or b"", record.value
    try:
        (record_type,) = _INT16.unpack_from(key)
        found: tuple[type, type] | None = classes.get(record_type)
        if found is None:
            return _undecoded(record, f"record type {record_type}: unknown")
        of_key = as_json(decode(found[0], _KEY_VERSION, memoryview(key), _INT16.size), _KEY_VERSION)
        payload: dict[str, Any] | None = None
        if value is not None:
            (version,) = _INT16.unpack_from(value)
            message: object = decode(found[1], version, memoryview(value), _INT16.size)
            payload = {"version": str(version), "data": as_json(message, version)}
    except _DAMAGE as error:
        return _undecoded(record, str(error))
    return {"key": {"type": str(record_type), "data": of_key}, "payload": payload}


def _decode_embedded(member: dict[str, Any], name: str, cls: type) -> None:
    """Replace the bytes of a consumer's own protocol by what they contain, if they can be read."""
    data = base64.b64decode(member[name])
    if not data:
        return
    try:
        version = min(_INT16.unpack_from(data)[0], schema_of(cls).versions.highest)
        member[name] = as_json(decode(cls, version, memoryview(data), _INT16.size), version)
    except _DAMAGE:
        return  # a client's own bytes, which stay base64


def _undecoded(record: Record, reason: str) -> Fields:
    return {"undecoded": reason} | json_of("key", record.key) | json_of("payload", record.value)


DECODERS: Final[dict[str, Callable[[Record], Fields]]] = {
    "offsets": offsets_fields,
    "transactions": transactions_fields,
    "metadata": metadata_fields,
}
BY_TOPIC: Final = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transactions",
    "__cluster_metadata": "metadata",
}
"""The decoder for the logs of each internal topic."""
