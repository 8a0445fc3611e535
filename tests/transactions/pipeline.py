"""A transactional producer that is a member of a group: each transaction reads a part of the input and commits its end.

The input is the topic itself, by its partitions; its records do not matter. The members share the partitions by the protocol of
KIP-848. A member that sleeps too long is no longer in the group, and another one continues from the committed offset.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from pybroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from testing.transactions.history import Claim, History, StableOffset
from tests.transactions.connection import Connection, DisconnectedError
from tests.transactions.writer import TOPIC, FencedError, Writer

GROUP: Final = "pipeline"
SESSION_TIMEOUT_MS: Final = 6_000
BEAT_S: Final = 1.0
_LOST: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


async def committed_offset(
    connection: Connection, partition: int, *, stable: bool, member: tuple[str | None, int] = (None, -1)
) -> Any:
    """Return the error code and the committed offset of a partition; an error of the group counts for the partition."""
    asked = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])
    member_id, epoch = member
    group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=[asked])
    response = await connection.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 9)
    (found,) = response.groups
    if found.error_code:
        return found.error_code, -1
    (one,) = found.topics[0].partitions
    return one.error_code, max(0, one.committed_offset)


async def watch_offsets(connection: Connection, partitions: int, history: History, random: Random) -> None:
    """Note committed offsets until the broker ends."""
    try:
        while True:
            await asyncio.sleep(random.choice((0.02, 0.3)))
            partition, began = random.randrange(partitions), history.stamp()
            code, offset = await committed_offset(connection, partition, stable=random.random() < 0.5)
            if not code:
                history.committed_offsets.append(StableOffset(partition, offset, began, history.stamp()))
    except DisconnectedError:
        return


class Pipeline(Writer):
    """A writer whose transactions claim parts of the input."""

    sleeps = (*Writer.sleeps, *[SESSION_TIMEOUT_MS / 1000 + 2] * 3)  # so that its partitions become another member's
    sleep_share = 0.3

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._member_epoch = 0
        self._owned: list[int] = []
        self._positions: dict[int, int] = {}

    def _plan(self, partitions: int) -> None:
        async def claim(connection: Connection) -> None:
            await self._beat(connection)
            if not self._owned:
                await asyncio.sleep(BEAT_S)
                return
            partition = self._random.choice(self._owned)
            first = await self._position(connection, partition)
            claimed = Claim(partition, first, first + self._random.randint(1, 3))
            more = [self._commit(claimed)]
            if self.version == 1:
                more.insert(0, self._open_offsets)
            self._steps += self._transaction(partitions, *more)
            assert self._written is not None
            self._written.claim = claimed

        self._steps.append(claim)

    def _lose(self) -> None:
        self._positions.clear()  # of what is not committed for sure

    def _ended(self, *, is_commit: bool) -> None:
        assert self._written is not None
        assert self._written.claim is not None
        partition, _, end = self._written.claim
        if is_commit:
            self._positions[partition] = end

    async def _beat(self, connection: Connection) -> None:
        """Send a heartbeat between transactions, so a partition may be given back at once."""
        topic_id = connection.topic_id(TOPIC)
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self._member_epoch,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=self._owned)] if self._owned else [],
        )
        response = await self._ask(lambda: connection.ask(request, 1), lambda response: [response.error_code], allowed=_LOST)
        if response.error_code:
            self._member_epoch, self._owned, self._positions = 0, [], {}
            return
        self._member_epoch = response.member_epoch
        if response.assignment is not None:
            self._owned = [number for topic in response.assignment.topic_partitions for number in topic.partitions]
            self._positions = {number: at for number, at in self._positions.items() if number in self._owned}

    async def _position(self, connection: Connection, partition: int) -> int:
        """Return where the input continues: behind the last transaction, or at the committed offset."""
        while partition not in self._positions:
            member = (self.name, self._member_epoch)
            code, offset = await committed_offset(connection, partition, stable=True, member=member)
            if not code:
                self._positions[partition] = offset
            elif code in (ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
                await asyncio.sleep(BEAT_S)
                await self._beat(connection)
                if partition not in self._owned:
                    raise FencedError("the partition is another member's")
            else:
                raise FencedError(str(code))
        return self._positions[partition]

    async def _open_offsets(self, connection: Connection) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=self._producer_id, producer_epoch=self._epoch, group_id=GROUP
        )
        await self._ask(lambda: connection.ask(request, 3), lambda response: [response.error_code])

    def _commit(self, claimed: Claim) -> Any:
        async def commit(connection: Connection) -> None:
            one = TxnOffsetCommitRequestPartition(partition_index=claimed.partition, committed_offset=claimed.end)
            request = TxnOffsetCommitRequest(
                transactional_id=self.transactional_id,
                group_id=GROUP,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                generation_id_or_member_epoch=self._member_epoch,
                member_id=self.name,
                topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
            )
            await self._ask(
                lambda: connection.ask(request, 5 if self.version == 2 else 3),
                lambda response: [one.error_code for topic in response.topics for one in topic.partitions],
            )

        return commit
