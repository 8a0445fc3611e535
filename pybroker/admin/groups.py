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
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pybroker.admin.steps import Steps
    from pybroker.protocol.messages.describe_transactions import TransactionState
    from pybroker.protocol.messages.list_groups import ListedGroup
    from pybroker.protocol.messages.metadata import MetadataResponse

CONSUMER: Final = "consumer"
GROUPS_AT_ONCE: Final = 100
"""In one request."""
TRANSACTION: Final = 1
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


def groups(wanted: str | None = None) -> Steps[dict[str, Group]]:
    """Return all groups by their ids, or only one if `wanted` is its id."""
    found = yield from cluster(None)
    ends = yield from offsets_of(found.topics, LATEST)
    result: dict[str, Group] = {}
    for node in _nodes(found):
        listed = yield from _patiently(lambda node=node: Ask(ListGroupsRequest(), 5, node))  # type: ignore[misc]
        for some in _pieces([one for one in listed.groups if wanted in (None, one.group_id)]):
            kinds = {one.group_id: one.group_type for one in some}
            members = yield from _described(kinds, node)
            offsets = yield from _offsets(kinds, node, ends)
            for group_id, (state, its) in members.items():
                result[group_id] = Group(
                    group_id=group_id, kind=kinds[group_id], state=state, members=its, offsets=offsets.get(group_id, {})
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
        known = [one for one in response.transaction_states if not one.error_code]  # others have expired meanwhile
        result |= {one.transactional_id: _transaction(one) for one in known}
    return dict(sorted(result.items()))


def abort(transactional_id: str) -> Steps[Transaction]:
    """Abort what is open of a transactional id, and shut its producer out, as a new producer does; return what is known then.

    Raises KafkaError, as TRANSACTIONAL_ID_NOT_FOUND.
    """
    found = yield Ask(FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION), 3)
    check(found.error_code, found.error_message)
    node = int(found.node_id)
    before = yield from _described_transaction(transactional_id, node)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=before.timeout_ms)
    patience = Patience()
    while True:
        ended = yield Ask(request, 4, node)
        if ended.error_code != ErrorCode.CONCURRENT_TRANSACTIONS and not patience.allows(ended.error_code):
            return (yield from _described_transaction(transactional_id, node))
        check(0 if patience.left_s else ended.error_code)
        yield RETRY_S


def _described_transaction(transactional_id: str, node: int) -> Steps[Transaction]:
    response = yield Ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0, node)
    (state,) = response.transaction_states
    check(state.error_code, f"there is no transactional id {transactional_id}")
    return _transaction(state)


def _transaction(state: TransactionState) -> Transaction:
    return Transaction(
        transactional_id=state.transactional_id,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        partitions=tuple(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
    )


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


def _pieces(groups: Sequence[ListedGroup]) -> Iterator[Sequence[ListedGroup]]:
    return (groups[at : at + GROUPS_AT_ONCE] for at in range(0, len(groups), GROUPS_AT_ONCE))


def _member(one: Any, instance_id: str | None, partitions: Iterable[tuple[str, int]]) -> Member:
    """Return a member as either kind of description has it."""
    return Member(
        member_id=one.member_id,
        instance_id=instance_id,
        client_id=one.client_id,
        host=one.client_host,
        assigned=tuple(TopicPartition(*partition) for partition in partitions),
    )


def _listed(topics: Iterable[Any]) -> Iterator[tuple[str, int]]:
    return ((topic.topic_name, index) for topic in topics for index in topic.partitions)


def _described(kinds: Mapping[str, str], node: int) -> Steps[dict[str, tuple[str, tuple[Member, ...]]]]:
    """Return the states and members of groups."""
    found: dict[str, tuple[str, tuple[Member, ...]]] = {}
    of_consumers = [group_id for group_id, kind in kinds.items() if kind == CONSUMER]
    if of_consumers:
        request = ConsumerGroupDescribeRequest(group_ids=of_consumers, include_authorized_operations=False)
        response = yield Ask(request, 0, node)
        for group in response.groups:
            members = (_member(one, one.instance_id, _listed(one.assignment.topic_partitions)) for one in group.members)
            found[group.group_id] = group.group_state, tuple(members)
    if others := [group_id for group_id in kinds if group_id not in found]:
        response = yield Ask(DescribeGroupsRequest(groups=others), 5, node)
        for group in response.groups:
            members = (_member(one, one.group_instance_id, assigned(one.member_assignment)) for one in group.members)
            found[group.group_id] = group.group_state, tuple(members)
    return found


def _offsets(
    group_ids: Iterable[str], node: int, ends: Mapping[tuple[str, int], int]
) -> Steps[dict[str, dict[TopicPartition, CommittedOffset]]]:
    """Return the committed offsets of groups; of one that has gone meanwhile, nothing."""
    asked = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    response = yield Ask(OffsetFetchRequest(groups=asked), 8, node)
    found = {}
    for group in response.groups:
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        check(group.error_code)
        found[group.group_id] = {
            TopicPartition(topic.name, one.partition_index): CommittedOffset(
                one.committed_offset, ends.get((topic.name, one.partition_index), 0), one.metadata or ""
            )
            for topic in sorted(group.topics, key=lambda topic: topic.name)
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        }
    return found
