"""Requests about groups: to the coordinator of each, repeated while it is still coming up."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.client.errors import ClientError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.member_assignment import assigned
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.delete_groups import DeleteGroupsRequest
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pybroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from pybroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest
from pybroker.tools.admin import Admin, RefusedError, check
from pybroker.tools.kafka_errors import GROUP_ID_NOT_FOUND
from pybroker.tools.leaders import list_offsets

if TYPE_CHECKING:
    from pybroker.tools.target import Target

EARLIEST, LATEST = -2, -1
CONSUMER: Final = "consumer"
BACKOFF_S: Final = 0.05
NOT_YET: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class Member(NamedTuple):
    """A member of a group, and what it reads."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    assigned: list[Partition]


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    group_id: str
    state: str
    assignor: str
    members: list[Member]


class Groups(Admin):
    """A client that asks each group's coordinator. The broker of a cluster of one is the coordinator of every group."""

    def __init__(self, target: Target, wait_s: float) -> None:
        super().__init__(target)
        self._wait_s = wait_s

    def _patiently(self, group_id: str, ask: Callable[[], Any], error_of: Callable[[Any], int]) -> Any:
        """Return a response, requested again while the coordinator is coming up. Raises ClientError."""
        end = time.monotonic() + self._wait_s
        while True:
            try:
                response = ask()
            except ClientError:  # of several brokers, another one takes the groups over
                if self.is_one_broker or time.monotonic() > end:
                    raise
                self.forget_brokers()
            else:
                if error_of(response) not in NOT_YET or time.monotonic() > end:
                    return response
                self.ask(FindCoordinatorRequest(key=group_id), 2)  # creates the topic of offsets, the first time
            time.sleep(BACKOFF_S)

    def _of_group(self, group_id: str, request: object, version: int, error_of: Callable[[Any], int]) -> Any:
        """Return the response of a group's coordinator, requested again as by `_patiently`. Raises RefusedError, ClientError."""
        return self._patiently(group_id, lambda: self.ask(request, version, broker_id=self._coordinator_id(group_id)), error_of)

    def _coordinator_id(self, group_id: str) -> int | None:
        return None if self.is_one_broker else int(self._coordinator(group_id).node_id)

    def _coordinator(self, group_id: str) -> Any:
        """Return the coordinator that any broker names. Raises RefusedError."""
        found = self._patiently(
            group_id, lambda: self.ask(FindCoordinatorRequest(key=group_id), 2), lambda found: int(found.error_code)
        )
        check(found.error_code, found.error_message)
        return found

    def coordinator(self, group_id: str) -> str:
        """Return the coordinator's address and id, as Kafka's tool prints them. Raises RefusedError."""
        found = self._coordinator(group_id)
        return f"{found.host}:{found.port}  ({found.node_id})"

    def listed(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Any]:
        """Return the groups of consumers, by name. Raises RefusedError, ClientError."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        found: dict[str, Any] = {}
        for broker_id in tuple(self.brokers):  # each lists the groups that it coordinates
            response = self._patiently(
                "", functools.partial(self.ask, request, 5, broker_id=broker_id), lambda response: int(response.error_code)
            )
            check(response.error_code)
            found |= {str(one.group_id): one for one in response.groups if one.protocol_type in ("", CONSUMER)}
        return [found[group_id] for group_id in sorted(found)]

    def described(self, group_id: str) -> Group:
        """Return a group of either protocol; a group that does not exist is Dead. Raises RefusedError."""
        request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        (found,) = self._of_group(group_id, request, 0, lambda r: int(r.groups[0].error_code)).groups
        if found.error_code == 0:
            members = [
                Member(one.member_id, one.instance_id or "", one.client_id, one.client_host, _partitions(one.assignment))
                for one in found.members
            ]
            return Group(group_id, found.group_state, found.assignor_name, members)
        if found.error_code not in (GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise RefusedError(found.error_code, found.error_message)
        classic = DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False)
        (found,) = self._of_group(group_id, classic, 5, lambda r: int(r.groups[0].error_code)).groups
        check(found.error_code)
        members = [
            Member(
                one.member_id,
                one.group_instance_id or "",
                one.client_id,
                one.client_host,
                [Partition(*partition) for partition in assigned(one.member_assignment)],
            )
            for one in found.members
        ]
        return Group(group_id, found.group_state, found.protocol_data, members)

    def committed(self, group_id: str) -> dict[Partition, int]:
        """Return every committed offset. Raises RefusedError."""
        request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=False)
        response = self._of_group(group_id, request, 7, lambda response: int(response.error_code))
        check(response.error_code)
        return {
            Partition(topic.name, one.partition_index): one.committed_offset
            for topic in response.topics
            for one in topic.partitions
            if one.error_code == 0 and one.committed_offset >= 0
        }

    def offsets(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        """Return the first, the last, or the first offset from a time on; -1 where there is none. Raises RefusedError."""
        found = {}
        for topic, one in list_offsets(self, by_topic(partitions), timestamp, version=5, wait_s=self._wait_s):
            check(one.error_code)
            found[Partition(topic, one.partition_index)] = one.offset
        return found

    def commit(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        """Commit as a simple consumer, which is no member. Raises RefusedError."""
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
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        response = self._of_group(group_id, request, 8, lambda r: int(r.topics[0].partitions[0].error_code))
        for topic in response.topics:
            for one in topic.partitions:
                check(one.error_code)

    def delete(self, group_ids: Sequence[str]) -> dict[str, int]:
        """Delete groups and return the error of each."""
        errors = {}
        for group_id in group_ids:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response = self._of_group(group_id, request, 2, lambda r: int(r.results[0].error_code))
            errors[group_id] = int(response.results[0].error_code)
        return errors

    def delete_offsets(self, group_id: str, partitions: Iterable[Partition]) -> tuple[int, dict[Partition, int]]:
        """Delete offsets and return the error of the group, and of each partition."""
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes])
            for name, indexes in by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        response = self._of_group(group_id, request, 0, lambda r: int(r.error_code))
        errors = {
            Partition(topic.name, one.partition_index): int(one.error_code)
            for topic in response.topics
            for one in topic.partitions
        }
        return int(response.error_code), errors

    def partitions_of(self, topic: str) -> list[Partition]:
        """Return all partitions of a topic. Raises RefusedError."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = self.ask(request, 9).topics
        check(found.error_code)
        return [Partition(topic, index) for index in sorted(one.partition_index for one in found.partitions)]


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return the indexes by topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found


def _partitions(assignment: Any) -> list[Partition]:
    return [Partition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]
