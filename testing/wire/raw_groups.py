"""The requests and responses of groups as bytes, for members without a client: many at once, or killed at will.

They are written with `struct` alone, like `raw`, and share nothing with the broker. The versions are the last before the flexible
encoding (JoinGroup 5, SyncGroup 3, Heartbeat 3, LeaveGroup 3, OffsetCommit 7, OffsetFetch 5), FindCoordinator 0, and
ConsumerGroupHeartbeat 0, which is flexible.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from testing.wire.raw import CLIENT_ID, Connection, Reader, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 10, 11, 12, 13, 14
DESCRIBE_GROUPS, CONSUMER_GROUP_HEARTBEAT = 15, 68
VERSIONS = {
    OFFSET_COMMIT: 7, OFFSET_FETCH: 5, FIND_COORDINATOR: 0, JOIN_GROUP: 5, HEARTBEAT: 3, LEAVE_GROUP: 3, SYNC_GROUP: 3,
    DESCRIBE_GROUPS: 0,
}  # fmt: skip

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCING = 14, 15, 16, 22, 25, 27
MEMBER_ID_REQUIRED, FENCED_MEMBER_EPOCH = 79, 110
COME_AGAIN = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
WAIT_S = 60


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def array(items: Iterable[bytes]) -> bytes:
    listed = list(items)
    return struct.pack(">i", len(listed)) + b"".join(listed)


def optional_string(reader: Reader) -> str | None:
    size = reader.int16()
    return None if size < 0 else reader.take(size).decode()


# --- Classic members ------------------------------------------------------------------------------------------------------------


class Identity(NamedTuple):
    """The sender of a request. For a sender that is no member, the generation is -1 and the id empty."""

    group: str
    generation: int = -1
    member: str = ""
    instance: str | None = None


class Joined(NamedTuple):
    """The response to JoinGroup. `members` is empty for all members except the leader."""

    error: int
    generation: int
    leader: str
    member: str
    members: list[str]


def subscription(topics: Iterable[str]) -> bytes:
    """Return a consumer's subscription: version 0, no user data."""
    return struct.pack(">h", 0) + array(map(string, topics)) + struct.pack(">i", -1)


def join_body(
    group: str, member: str, metadata: bytes, *, session_ms: int, rebalance_ms: int, instance: str | None = None
) -> bytes:
    times = struct.pack(">ii", session_ms, rebalance_ms)
    protocols = array([string("range") + data(metadata)])
    return string(group) + times + string(member) + string(instance) + string("consumer") + protocols


def parse_join(response: bytes) -> Joined:
    reader = Reader(response)
    reader.int32()  # throttle time
    error, generation = reader.int16(), reader.int32()
    optional_string(reader)  # the protocol's name
    leader, member, members = reader.string(), reader.string(), []
    for _ in range(reader.int32()):
        members.append(reader.string())
        optional_string(reader)  # instance
        reader.take(reader.int32())  # metadata
    reader.end()
    return Joined(error, generation, leader, member, members)


def sync_body(identity: Identity, assignments: Mapping[str, bytes]) -> bytes:
    return heartbeat_body(identity) + array(string(member) + data(assignment) for member, assignment in assignments.items())


def parse_sync(response: bytes) -> tuple[int, bytes]:
    """Return the error and the assignment."""
    reader = Reader(response)
    reader.int32()  # throttle time
    error = reader.int16()
    assignment = reader.take(reader.int32())
    reader.end()
    return error, assignment


def heartbeat_body(identity: Identity) -> bytes:
    return string(identity.group) + struct.pack(">i", identity.generation) + string(identity.member) + string(identity.instance)


def parse_heartbeat(response: bytes) -> int:
    reader = Reader(response)
    reader.int32()  # throttle time
    error = reader.int16()
    reader.end()
    return error


def leave_body(identity: Identity) -> bytes:
    return string(identity.group) + array([string(identity.member) + string(identity.instance)])


# --- Offsets --------------------------------------------------------------------------------------------------------------------


class Committed(NamedTuple):
    offset: int
    metadata: str


def commit_body(identity: Identity, topic: str, offsets: Mapping[int, Committed]) -> bytes:
    partitions = array(
        struct.pack(">iqi", partition, committed.offset, -1) + string(committed.metadata)
        for partition, committed in offsets.items()
    )
    return heartbeat_body(identity) + array([string(topic) + partitions])


def parse_commit(response: bytes) -> list[int]:
    """Return the error of each partition."""
    reader = Reader(response)
    reader.int32()  # throttle time
    errors = []
    for _ in range(reader.int32()):
        reader.string()
        for _ in range(reader.int32()):
            reader.int32()
            errors.append(reader.int16())
    reader.end()
    return errors


def fetch_offsets_body(group: str, topic: str, partitions: Iterable[int]) -> bytes:
    return string(group) + array([string(topic) + array(struct.pack(">i", partition) for partition in partitions)])


def parse_fetch_offsets(response: bytes) -> tuple[int, dict[int, Committed]]:
    """Return the group's error and the committed offsets; a partition without an offset has -1."""
    reader = Reader(response)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        reader.string()
        for _ in range(reader.int32()):
            partition, offset = reader.int32(), reader.int64()
            reader.int32()  # leader epoch
            found[partition] = Committed(offset, optional_string(reader) or "")
            assert reader.int16() == 0
    error = reader.int16()
    reader.end()
    return error, found


# --- One after the other --------------------------------------------------------------------------------------------------------


def call(connection: Connection, key: int, body: bytes) -> bytes:
    return connection.call(key, VERSIONS[key], body)


def find_coordinator(bootstrap: str, group: str = "any") -> None:
    """Wait until the group has a coordinator that has loaded it; on a new broker this creates the offsets topic."""
    deadline = time.monotonic() + WAIT_S
    with Connection(bootstrap) as connection:
        while True:
            reader = Reader(call(connection, FIND_COORDINATOR, string(group)))
            error = reader.int16()
            if not error:
                error, _ = parse_fetch_offsets(call(connection, OFFSET_FETCH, fetch_offsets_body(group, "t", [])))
            if not error:
                return
            assert error in COME_AGAIN, error
            assert time.monotonic() < deadline, "there is no coordinator"
            time.sleep(0.005)


def join_alone(
    connection: Connection, group: str, *, session_ms: int, instance: str | None = None, metadata: bytes | None = None
) -> Identity:
    """Join an empty group and assign all to this member, which is then Stable in the first generation or in the existing
    generation. `metadata` is what the member sends, or None for the subscription of topic t.
    """
    member, sent = "", subscription(["t"]) if metadata is None else metadata
    while True:
        body = join_body(group, member, sent, session_ms=session_ms, rebalance_ms=session_ms, instance=instance)
        joined = parse_join(call(connection, JOIN_GROUP, body))
        if joined.error != MEMBER_ID_REQUIRED:
            break
        member = joined.member
    assert joined.error == 0, joined
    identity = Identity(group, joined.generation, joined.member, instance)
    error, _ = parse_sync(call(connection, SYNC_GROUP, sync_body(identity, {joined.member: b"all"})))
    assert error == 0, error
    return identity


# --- KIP-848 --------------------------------------------------------------------------------------------------------------------


def compact(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    encoded = value.encode()
    return unsigned(len(encoded) + 1) + encoded


def unsigned(value: int) -> bytes:
    """Encode a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def flexible_request(api_key: int, version: int, body: bytes, correlation_id: int) -> bytes:
    """Build a whole frame: size, header v2, body."""
    header = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


class Beaten(NamedTuple):
    """The response to a heartbeat. `assignment` has partitions by the id of their topic, and is None when it has not changed."""

    error: int
    member: str
    epoch: int
    interval_ms: int
    assignment: dict[bytes, list[int]] | None


def consumer_heartbeat_body(
    group: str, member: str, epoch: int, *, rebalance_ms: int = -1, topics: list[str] | None = None,
    owned: Mapping[bytes, list[int]] | None = None, instance: str | None = None,
) -> bytes:  # fmt: skip
    """Build the body of a heartbeat; a field that is None has not changed since the previous request."""
    body = compact(group) + compact(member) + struct.pack(">i", epoch) + compact(instance) + compact(None)
    body += struct.pack(">i", rebalance_ms)
    body += b"\0" if topics is None else unsigned(len(topics) + 1) + b"".join(map(compact, topics))
    body += compact(None)  # the assignor is the broker's choice
    if owned is None:
        return body + b"\0\0"
    body += unsigned(len(owned) + 1)
    for topic_id, partitions in owned.items():
        body += topic_id + unsigned(len(partitions) + 1) + struct.pack(f">{len(partitions)}i", *partitions) + b"\0"
    return body + b"\0"


def parse_consumer_heartbeat(response: bytes) -> Beaten:
    """Parse `response`, which begins behind the correlation id, with the tags of the header."""
    reader = Reader(response)
    tags(reader)
    reader.int32()  # throttle time
    error = reader.int16()
    compact_string(reader)  # a text for people
    member, epoch, interval_ms = compact_string(reader) or "", reader.int32(), reader.int32()
    assignment = None
    if reader.take(1) == b"\x01":
        assignment = {}
        for _ in range(varint(reader) - 1):
            topic_id = reader.take(16)
            assignment[topic_id] = [reader.int32() for _ in range(varint(reader) - 1)]
            tags(reader)
        tags(reader)
    tags(reader)
    reader.end()
    return Beaten(error, member, epoch, interval_ms, assignment)


def varint(reader: Reader) -> int:
    value = shift = 0
    while True:
        (byte,) = reader.take(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7


def compact_string(reader: Reader) -> str | None:
    size = varint(reader)
    return None if size == 0 else reader.take(size - 1).decode()


def tags(reader: Reader) -> None:
    assert varint(reader) == 0, "no tagged fields are known"
