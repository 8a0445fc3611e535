"""Well-formed requests of every API and version, and the frames that a fuzzer makes of them.

The well-formed requests are built from the definitions of an independent library (kio) with made-up values, and from `raw` for
versions that are too old for kio. Names are such that no mutation of a few bytes makes a legal topic name of them, except the
name of the given topic.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import random
import struct
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import TypeVar

from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

from testing.wire import raw

T = TypeVar("T")
ILLEGAL_NAME = "fuzz///////here"
NOWHERE_ID = 0x6FFFFFFF  # no broker has this id
TOPIC_KEYS = frozenset({raw.PRODUCE, raw.FETCH, raw.LIST_OFFSETS})
INTERESTING = [
    b"\x00", b"\xff", b"\x7f", b"\x80", b"\xff\xff", b"\x7f\xff", b"\x80\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00", b"\x00\x10\x00\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 10,
]  # fmt: skip


def well_formed(topic: str, records: bytes, old_records: bytes) -> list[bytes]:
    """Return frames without their size. `records` goes into Produce from version 3 on, `old_records` into earlier versions."""
    frames = []
    for key, name in api_key_map.items():
        versions = [version for version, kinds in schema_name_map[name].items() if EntityType.request in kinds]
        frames += [_frame(key, version, topic, records) for version in versions]
    for version in range(9):
        data = old_records if version < 3 else records
        frames += [
            raw.request(raw.PRODUCE, version, raw.produce_body(version, topic, {0: data}, acks=acks))[4:] for acks in (1, -1)
        ]
    for version in range(12):
        frames.append(raw.request(raw.FETCH, version, raw.fetch_body(version, [raw.Ask(topic=topic)]))[4:])
    frames.append(
        raw.request(raw.LIST_OFFSETS, 0, struct.pack(">ii", -1, 1) + raw.string(topic) + struct.pack(">iiqi", 1, 0, -1, 5))[4:]
    )
    return frames


def served(frames: Sequence[bytes], versions: Mapping[int, tuple[int, int]]) -> list[bytes]:
    """Return the frames that a broker with these versions (lowest and highest, by api key) knows."""
    keys = [struct.unpack_from(">hh", frame) for frame in frames]
    return [
        f
        for f, (key, version) in zip(frames, keys, strict=True)
        if key in versions and versions[key][0] <= version <= versions[key][1]
    ]


def _frame(key: int, version: int, topic: str, records: bytes) -> bytes:
    schema = load_request_schema(key, version)
    header_schema = schema.__header_schema__
    out = io.BytesIO()
    fields = {"request_api_key": key, "request_api_version": version, "correlation_id": 1, "client_id": "fuzz"}
    header = header_schema(**{f.name: fields[f.name] for f in dataclasses.fields(header_schema)})
    entity_writer(header_schema)(out, header)
    entity_writer(schema)(out, _example(schema, topic if key in TOPIC_KEYS else ILLEGAL_NAME, records))
    return out.getvalue()


def _example(schema: type, topic: str, records: bytes) -> object:
    """Make an instance in which every field has a value and every array one element."""
    hints = typing.get_type_hints(schema)
    return schema(
        **{
            f.name: _value(f.name, f.metadata.get("kafka_type"), hints[f.name], topic, records)
            for f in dataclasses.fields(schema)
        }
    )


def _value(name: str, kafka_type: str | None, hint: object, topic: str, records: bytes) -> object:
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if typing.get_origin(hint) is tuple:
        return (_value(name, kafka_type, typing.get_args(hint)[0], topic, records),)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _example(hint, topic, records)
    numbers = {"broker_id": NOWHERE_ID, "acks": -1, "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20, "session_epoch": -1}
    values: dict[str, object] = {
        "string": topic,
        "bytes": b"bytes",
        "records": records,
        "bool": False,
        "uuid": uuid.UUID(int=7),
        "float64": 1.0,
        "timedelta_i32": dt.timedelta(0),
        "timedelta_i64": dt.timedelta(0),
        "datetime_i64": dt.datetime.fromtimestamp(1, dt.UTC),
    }
    return values.get(kafka_type or "", numbers.get(name, 0))


class Mutator:
    """An endless source of bad frames made from good frames; the same seed gives the same frames."""

    def __init__(self, frames: Sequence[bytes], seed: int) -> None:
        self._frames, self._rng = frames, random.Random(seed)
        self._ways = (self._whole, self._cut, self._flip, self._flip, self._overwrite, self._overwrite, self._drop, self._insert,
                      self._longer, self._splice, self._noise, self._noise_behind_header)  # fmt: skip

    def frame(self) -> bytes:
        """Return a bad frame behind its correct size."""
        data = self._pick(self._ways)(self._pick(self._frames))
        return struct.pack(">i", len(data)) + data

    def broken_size(self) -> bytes:
        """Return bytes behind a wrong size: negative, immense, or larger than what follows."""
        size = self._pick([-1, -(1 << 31), 0x7FFFFFFF, 1 << 30, 500, 3])
        return struct.pack(">i", size) + self._pick(self._frames)[:200]

    def _below(self, end: int) -> int:
        return int(self._rng.random() * end)  # several times faster than randrange, and uniform enough

    def _pick(self, things: Sequence[T]) -> T:
        return things[self._below(len(things))]

    def _whole(self, data: bytes) -> bytes:
        return data

    def _cut(self, data: bytes) -> bytes:
        return data[: self._below(len(data))]

    def _flip(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._pick((1, 1, 2, 4, 8))):
            changed[self._below(len(data))] ^= 1 << self._below(8)
        return bytes(changed)

    def _overwrite(self, data: bytes) -> bytes:
        piece, at = self._pick(INTERESTING), self._below(len(data))
        return data[:at] + piece + data[at + len(piece) :]

    def _drop(self, data: bytes) -> bytes:
        at = self._below(len(data))
        return data[:at] + data[at + self._pick((1, 2, 4, 8, 40)) :]

    def _insert(self, data: bytes) -> bytes:
        at = self._below(len(data))
        return data[:at] + self._pick([*INTERESTING, self._rng.randbytes(1 + self._below(50))]) + data[at:]

    def _longer(self, data: bytes) -> bytes:
        return data + self._rng.randbytes(1 + self._below(20))

    def _splice(self, data: bytes) -> bytes:
        other = self._pick(self._frames)
        return data[: self._below(len(data))] + other[self._below(len(other)) :]

    def _noise(self, _: bytes) -> bytes:
        return self._rng.randbytes(self._below(200))

    def _noise_behind_header(self, data: bytes) -> bytes:
        return data[: self._pick((8, 10, 14, 15))] + self._rng.randbytes(self._below(100))
