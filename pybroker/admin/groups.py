"""Looks into groups and transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pybroker.admin.steps import Ask, Patience, check
from pybroker.admin.topics import LATEST, RETRY_S, cluster, offsets_of
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.member_assignment import assigned
from pybroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker.protocol.messages.describe_groups import DescribeGroupsRequest
from pybroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.admin.steps import Steps
    from pybroker.protocol.messages.metadata import MetadataResponse

CONSUMER: Final = "consumer"
ONGOING: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""The states of a transaction that is not over."""


class TopicPartition(NamedTuple):
    """A partition by its name."""

    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for a partition. `end` is that of the log; `lag` is what the group has not read."""

    offset: int
    end: int
    metadata: str

    @property
    def lag(self) -> int:
        """The offsets between the committed one and the end."""
        return max(0, self.end - self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group. `assigned` is what it is to read."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of consumers. `kind` is `classic` or `consumer`; `state` is Kafka's word, as `Stable` or `Empty`."""

    group_id: str
    kind: str
    state: str
    members: tuple[Member, ...]
    offsets: dict[TopicPartition, CommittedOffset]

    @property
    def lag(self) -> int:
        """The offsets that the group has not read, of all partitions for which it has committed."""
        return sum(one.lag for one in self.offsets.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id as its coordinator knows it. `state` is Kafka's word, as `Ongoing` or `CompleteCommit`."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        """Whether the transaction has begun and is not over."""
        return self.state in ONGOING


def groups() -> Steps[dict[str, Group]]:
    """Return all groups by their ids."""
    found = yield from cluster(None)
    ends = yield from offsets_of(found.topics, LATEST)
    result: dict[str, Group] = {}
    for node in _nodes(found):
        listed = yield from _patiently(lambda node=node: Ask(ListGroupsRequest(), 5, node))  # type: ignore[misc]
        for one in listed.groups:
            state, members = yield from _described(one.group_id, one.group_type, node)
            offsets = yield from _offsets(one.group_id, node, ends)
            result[one.group_id] = Group(
                group_id=one.group_id, kind=one.group_type, state=state, members=members, offsets=offsets
            )
    return dict(sorted(result.items()))


def transactions() -> Steps[dict[str, Transaction]]:
    """Return all transactional ids with what is known of their last transactions."""
    found = yield from cluster(None)
    result: dict[str, Transaction] = {}
    for node in _nodes(found):
        listed = yield from _patiently(lambda node=node: Ask(ListTransactionsRequest(), 1, node))  # type: ignore[misc]
        names = [one.transactional_id for one in listed.transaction_states]
        if not names:
            continue
        response = yield Ask(DescribeTransactionsRequest(transactional_ids=names), 0, node)
        for one in response.transaction_states:
            if one.error_code:  # it has expired meanwhile
                continue
            result[one.transactional_id] = Transaction(
                transactional_id=one.transactional_id,
                state=one.transaction_state,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                timeout_ms=one.transaction_timeout_ms,
                partitions=tuple(TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions),
            )
    return dict(sorted(result.items()))


def _nodes(found: MetadataResponse) -> list[int]:
    return sorted(broker.node_id for broker in found.brokers)


def _patiently(ask: Callable[[], Ask]) -> Steps[Any]:
    """Return a response, requested again while a coordinator is coming up. Raises KafkaError."""
    patience = Patience()
    while True:
        response = yield ask()
        if not patience.allows(response.error_code):
            return response
        yield RETRY_S


def _described(group_id: str, kind: str, node: int) -> Steps[tuple[str, tuple[Member, ...]]]:
    if kind == CONSUMER:
        response = yield Ask(ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False), 0, node)
        (group,) = response.groups
        members = tuple(
            Member(
                member_id=one.member_id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                host=one.client_host,
                assigned=tuple(
                    TopicPartition(topic.topic_name, index)
                    for topic in one.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for one in group.members
        )
    else:
        response = yield Ask(DescribeGroupsRequest(groups=[group_id]), 5, node)
        (group,) = response.groups
        members = tuple(
            Member(
                member_id=one.member_id,
                instance_id=one.group_instance_id,
                client_id=one.client_id,
                host=one.client_host,
                assigned=tuple(TopicPartition(*partition) for partition in assigned(one.member_assignment)),
            )
            for one in group.members
        )
    return group.group_state, members


def _offsets(group_id: str, node: int, ends: dict[tuple[str, int], int]) -> Steps[dict[TopicPartition, CommittedOffset]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    response = yield Ask(request, 8, node)
    (group,) = response.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    check(group.error_code)
    return {
        TopicPartition(topic.name, one.partition_index): CommittedOffset(
            one.committed_offset, ends.get((topic.name, one.partition_index), 0), one.metadata or ""
        )
        for topic in sorted(group.topics, key=lambda topic: topic.name)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
    }
