"""A member of a classic group: joins, assigns if it leads, and keeps its place by heartbeats. It assigns ranges.

Source: KIP-62, KIP-394; ConsumerCoordinator and RangeAssignor of Kafka's client.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from pybroker.client.connection import Connection
from pybroker.client.errors import ClientError
from pybroker.protocol.codec import decode, encode
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.member_assignment import assigned
from pybroker.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker.protocol.parts import SendPart
from pybroker.terminal.profiles import RESPONSE
from pybroker.terminal.session import Cluster, check
from pybroker.tools.groups_admin import Partition, by_topic
from pybroker.tools.target import Target

if TYPE_CHECKING:
    from pybroker.spark.wire.client import WireClient

SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 60_000
HEARTBEAT_S: Final = 3.0
JOIN_MS: Final = 310_000
"""How long a JoinGroup may take: other members may need their `max.poll.interval.ms`, which is 300,000 by default."""
RANGE: Final = "range"
CONSUMER: Final = "consumer"
NO_GENERATION: Final = -1
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION, COMMIT_VERSION = 5, 3, 3, 3, 8
"""Versions that brokers from 2.4 to 4.x serve, and that name topics by name."""
AGAIN: Final = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
MOVED: Final = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
PAUSE_S: Final = 0.1


class Member:
    """A member of a group, and a context manager, which leaves the group at its end. Methods raise ClientError, FailedError."""

    def __init__(self, target: Target, client: WireClient, group_id: str, topics: Sequence[str]) -> None:
        self._target = Target(target.bootstrap, {**target.properties, RESPONSE: str(JOIN_MS)})
        self._client, self._group_id, self._topics = client, group_id, topics
        self._member_id, self._generation = "", NO_GENERATION
        self._beaten_at = 0.0
        self._cluster = Cluster(self._target)
        self._coordinator: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._member_id:
                identity = MemberIdentity(member_id=self._member_id, reason="the command ends")
                self._ask(LeaveGroupRequest(group_id=self._group_id, members=[identity]), LEAVE_VERSION)
        except ClientError:
            pass  # the session of the member ends by itself
        finally:
            self._forget_coordinator()
            self._cluster.__exit__()

    def join(self) -> list[Partition]:
        """Return what this member is to read, once all members have joined."""
        while True:
            joined = self._ask(self._join_request(), JOIN_VERSION)
            self._member_id = joined.member_id or self._member_id
            if self._is_to_try_again(joined.error_code):
                continue
            self._generation = joined.generation_id
            synced = self._ask(self._sync_request(joined), SYNC_VERSION)
            if self._is_to_try_again(synced.error_code):
                continue
            self._beaten_at = time.monotonic()
            return sorted(Partition(*one) for one in assigned(synced.assignment))

    def is_settled(self) -> bool:
        """Send a heartbeat if one is due, and return whether the member may continue; otherwise it has to join again."""
        if time.monotonic() - self._beaten_at < HEARTBEAT_S:
            return True
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self._generation, member_id=self._member_id)
        response = self._ask(request, HEARTBEAT_VERSION)
        self._beaten_at = time.monotonic()
        return not self._is_to_try_again(response.error_code)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the committed offsets of these partitions; those without one are left out."""
        found = self._cluster.committed(self._group_id)
        return {partition: found[partition] for partition in partitions if partition in found}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit as this member. After a rebalance, the offsets are no longer this member's, and are not committed."""
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[Partition(name, index)], committed_metadata=""
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(offsets).items()
        ]
        if not topics:
            return
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=topics,
        )
        for topic in self._ask(request, COMMIT_VERSION).topics:
            for one in topic.partitions:
                if one.error_code not in AGAIN:
                    check(f"{topic.name}-{one.partition_index}", one.error_code)

    def _is_to_try_again(self, code: int) -> bool:
        """Return whether the member has to join again. Raises FailedError for an error that this does not mend."""
        if code not in AGAIN:
            check(f"group {self._group_id}", code)
            return False
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id, self._generation = "", NO_GENERATION
        if code in MOVED:
            self._forget_coordinator()
        if code != ErrorCode.MEMBER_ID_REQUIRED:
            time.sleep(PAUSE_S)
        return True

    def _ask(self, request: object, version: int) -> Any:
        """Return the coordinator's response; a connection that broke is made once more."""
        for is_last in (False, True):
            try:
                return self._connected().call(request, version)
            except ClientError:
                self._forget_coordinator()
                if is_last:
                    raise
            except BaseException:  # as Ctrl-C: the response that comes is for no request any more
                self._forget_coordinator()
                raise
        raise AssertionError("the second attempt returns or raises")

    def _connected(self) -> Connection:
        if self._coordinator is None:
            host, port = self._cluster.group_coordinator(self._group_id)
            self._coordinator = Connection(self._target.connect_to(host, port))
        return self._coordinator

    def _forget_coordinator(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _join_request(self) -> JoinGroupRequest:
        subscription = _versioned(ConsumerProtocolSubscription(topics=list(self._topics)))
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=subscription)],
        )

    def _sync_request(self, joined: Any) -> SyncGroupRequest:
        assignments = []
        if joined.leader == self._member_id:
            subscribed = {one.member_id: _topics_of(one.metadata) for one in joined.members}
            counts = {
                name: len(topic.leaders)
                for name, topic in self._client.topics({name for names in subscribed.values() for name in names}).items()
            }
            for member_id, partitions in ranges(subscribed, counts).items():
                topics = [TopicPartition(topic=name, partitions=indexes) for name, indexes in by_topic(partitions).items()]
                data = _versioned(ConsumerProtocolAssignment(assigned_partitions=topics))
                assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        return SyncGroupRequest(
            group_id=self._group_id, generation_id=self._generation, member_id=self._member_id, assignments=assignments
        )


def ranges(subscribed: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> dict[str, list[Partition]]:
    """Return what each member reads: of each topic, the partitions in ranges by the order of member ids."""
    found: dict[str, list[Partition]] = {member: [] for member in subscribed}
    for topic, count in sorted(counts.items()):
        readers = sorted(member for member, topics in subscribed.items() if topic in topics)
        begin = 0
        for position, member in enumerate(readers):
            end = begin + count // len(readers) + (position < count % len(readers))
            found[member] += [Partition(topic, index) for index in range(begin, end)]
            begin = end
    return found


def _versioned(message: Any) -> bytes:
    """Return the bytes of a message of consumers, behind version 0."""
    return bytes(2) + b"".join(bytes(part) for part in encode(message, 0) if not isinstance(part, SendPart))


def _topics_of(metadata: bytes) -> list[str]:
    version = min(int.from_bytes(metadata[:2], signed=True), 3)
    return list(decode(ConsumerProtocolSubscription, version, memoryview(metadata), 2).topics)
