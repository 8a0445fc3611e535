"""Requests that no installed client can send, as bytes: Produce, Fetch and ListOffsets from version 0 on.

They are written from the protocol guide with `struct` alone and share nothing with the broker, so that no mistake is common to
both. The module knows only versions before the flexible encoding (Produce 9, Fetch 12, ListOffsets 6).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
CLIENT_ID = b"raw"
TIMEOUT_S = 30


def string(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def request(api_key: int, version: int, body: bytes, correlation_id: int = 1) -> bytes:
    """Build a whole frame: size, header v1, body."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


class Reader:
    """A reader of a response from front to back; `end` asserts that nothing is left."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def _unpack(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._position)
        self._position += form.size
        return int(value)

    def int16(self) -> int:
        return self._unpack(_INT16)

    def int32(self) -> int:
        return self._unpack(_INT32)

    def int64(self) -> int:
        return self._unpack(_INT64)

    def take(self, size: int) -> bytes:
        assert size <= len(self._data) - self._position, "the response is shorter than what it announces"
        self._position += size
        return self._data[self._position - size : self._position]

    def string(self) -> str:
        return self.take(self.int16()).decode()

    def end(self) -> None:
        assert self._position == len(self._data), f"{len(self._data) - self._position} bytes behind the response"


_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Connection:
    """A blocking connection. `receive` returns a response without its size and correlation id."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Send a request, and return its correlation id."""
        self._correlation_id += 1
        self.socket.sendall(request(api_key, version, body, self._correlation_id))
        return self._correlation_id

    def receive(self, correlation_id: int) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        response = self.receive_exactly(size)
        assert struct.unpack_from(">i", response) == (correlation_id,)
        return response[4:]

    def call(self, api_key: int, version: int, body: bytes) -> bytes:
        return self.receive(self.send(api_key, version, body))

    def receive_exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view, position = memoryview(data), 0
        while position < size:
            count = self.socket.recv_into(view[position:])
            if not count:
                raise ConnectionError(f"closed after {position} of {size} bytes")
            position += count
        return bytes(data)


def api_versions(connection: Connection) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version by api key, from ApiVersions v0."""
    reader = Reader(connection.call(API_VERSIONS, 0, b""))
    assert reader.int16() == 0
    versions = {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.int32())}
    reader.end()
    return versions


# --- Produce --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Produced:
    """The response for a partition. `log_append_time` is set from v2 on, `log_start_offset` from v5 on."""

    error: int
    base_offset: int
    log_append_time: int = -1
    log_start_offset: int = -1


def produce_body(version: int, topic: str, records: Mapping[int, bytes], *, acks: int = -1, timeout_ms: int = 10_000) -> bytes:
    body = string(None) if version >= 3 else b""
    body += struct.pack(">hii", acks, timeout_ms, 1) + string(topic) + struct.pack(">i", len(records))
    for partition, data in records.items():
        body += struct.pack(">ii", partition, len(data)) + data
    return body


def produce(connection: Connection, version: int, topic: str, data: bytes, *, acks: int = -1, partition: int = 0) -> Produced:
    """Send a message set or batch to a partition and return the response; v0 to v7."""
    response = connection.call(PRODUCE, version, produce_body(version, topic, {partition: data}, acks=acks))
    return parse_produce(version, topic, response, partition=partition)


def parse_produce(version: int, topic: str, data: bytes, *, partition: int = 0) -> Produced:
    """Return the response to a Produce of one partition; v0 to v7."""
    reader = Reader(data)
    assert (reader.int32(), reader.string(), reader.int32(), reader.int32()) == (1, topic, 1, partition)
    response = Produced(
        error=reader.int16(),
        base_offset=reader.int64(),
        log_append_time=reader.int64() if version >= 2 else -1,
        log_start_offset=reader.int64() if version >= 5 else -1,
    )
    if version >= 1:
        assert reader.int32() == 0, "throttle time"
    reader.end()
    return response


# --- Fetch ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A partition of a Fetch request."""

    topic: str
    partition: int = 0
    offset: int = 0
    bytes_max: int = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A partition of a Fetch response."""

    topic: str
    partition: int
    error: int
    high_watermark: int
    records: bytes
    last_stable_offset: int = -1
    is_null: bool = False  # no record set at all: a size of -1


@dataclass(frozen=True, kw_only=True)
class FetchResponse:
    error: int = 0
    session_id: int = 0
    partitions: list[Fetched] = field(default_factory=list)
    size: int = 0  # of the whole response, without its 4-byte size


def fetch_body(
    version: int,
    asks: Sequence[Ask],
    *,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 0x7FFFFFFF,
    session_id: int = 0,
    session_epoch: int = -1,
) -> bytes:
    body = struct.pack(">iii", -1, wait_ms, bytes_min)
    if version >= 3:
        body += struct.pack(">i", bytes_max)
    if version >= 4:
        body += b"\0"  # read uncommitted
    if version >= 7:
        body += struct.pack(">ii", session_id, session_epoch)
    topics: dict[str, list[Ask]] = {}
    for ask in asks:
        topics.setdefault(ask.topic, []).append(ask)
    body += struct.pack(">i", len(topics))
    for topic, partitions in topics.items():
        body += string(topic) + struct.pack(">i", len(partitions))
        for ask in partitions:
            body += struct.pack(">i", ask.partition)
            body += struct.pack(">i", -1) if version >= 9 else b""  # no leader epoch
            body += struct.pack(">q", ask.offset)
            body += struct.pack(">q", -1) if version >= 5 else b""  # log start offset: for followers
            body += struct.pack(">i", ask.bytes_max)
    if version >= 7:
        body += struct.pack(">i", 0)  # forgotten topics
    if version >= 11:
        body += string("")  # rack
    return body


def parse_fetch(version: int, data: bytes) -> FetchResponse:
    reader = Reader(data)
    if version >= 1:
        assert reader.int32() == 0, "throttle time"
    error = session_id = 0
    if version >= 7:
        error, session_id = reader.int16(), reader.int32()
    partitions = []
    for _ in range(reader.int32()):
        topic = reader.string()
        partitions += [_parse_fetched(version, topic, reader) for _ in range(reader.int32())]
    reader.end()
    return FetchResponse(error=error, session_id=session_id, partitions=partitions, size=len(data) + 4)


def _parse_fetched(version: int, topic: str, reader: Reader) -> Fetched:
    partition, error, high_watermark, last_stable_offset = reader.int32(), reader.int16(), reader.int64(), -1
    if version >= 4:
        last_stable_offset = reader.int64()
        if version >= 5:
            reader.int64()  # log start offset
        assert reader.int32() in (-1, 0), "no aborted transactions"
    if version >= 11:
        assert reader.int32() == -1, "no preferred read replica"
    size = reader.int32()
    return Fetched(
        topic=topic,
        partition=partition,
        error=error,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        records=reader.take(max(0, size)),
        is_null=size < 0,
    )


def fetch(
    connection: Connection, version: int, asks: Sequence[Ask], *, wait_ms: int = 0, bytes_max: int = 0x7FFFFFFF
) -> FetchResponse:
    body = fetch_body(version, asks, wait_ms=wait_ms, bytes_max=bytes_max)
    return parse_fetch(version, connection.call(FETCH, version, body))


def fetch_one(connection: Connection, version: int, ask: Ask) -> Fetched:
    """Fetch a single partition without an error."""
    (fetched,) = fetch(connection, version, [ask]).partitions
    assert (fetched.topic, fetched.partition, fetched.error) == (ask.topic, ask.partition, 0)
    return fetched


# --- ListOffsets v0 -------------------------------------------------------------------------------------------------------------


def list_offsets_v0(
    connection: Connection, topic: str, timestamp: int, count_max: int, partition: int = 0
) -> tuple[int, list[int]]:
    """Return the error and the offsets of segments, newest first, as clients before 0.10.1 ask for them."""
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiqi", 1, partition, timestamp, count_max)
    reader = Reader(connection.call(LIST_OFFSETS, 0, body))
    assert (reader.int32(), reader.string(), reader.int32(), reader.int32()) == (1, topic, 1, partition)
    error = reader.int16()
    offsets = [reader.int64() for _ in range(reader.int32())]
    reader.end()
    return error, offsets
