"""A transactional producer that notes what it does. It survives the broker, and sends a request again that got no response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.error_codes import error_code
from testing.scenes.api.records import batch_of_values
from testing.transactions.history import History, Outcome, Written
from tests.transactions.connection import Connection, DisconnectedError

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC: Final = "t"
TIMEOUT_MS: Final = 20_000
RETRY_S: Final = 0.1
AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class FencedError(Exception):
    """The transaction cannot be continued: its producer has to begin again, if it is still the one that has the id."""


Step = Callable[[Connection], Awaitable[None]]


class Writer:
    """An instance that has a transactional id. `version` is its transaction version, 1 or 2."""

    def __init__(self, name: str, transactional_id: str, version: int, random: Random, history: History) -> None:
        self.name, self.transactional_id, self.version = name, transactional_id, version
        self._random, self._history = random, history
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[int, int] = {}
        self._number = 0
        self._steps: list[Step] = [self._init]
        self._written: Written | None = None

    async def live(self, connection: Connection, transactions: int, partitions: int) -> None:
        """Write this many transactions more, or fewer when the broker ends. What is begun then continues next time."""
        try:
            while self._steps or transactions > 0:
                if not self._steps:
                    transactions -= 1
                    self._plan(partitions)
                await self._next(connection)
        except DisconnectedError:
            return

    async def _next(self, connection: Connection) -> None:
        step = self._steps[0]
        try:
            await step(connection)
        except FencedError:
            self._written = None
            self._steps = [self._init]
        else:
            self._steps.pop(0)

    def begin_again(self) -> None:
        """Forget everything, as a new instance does that has the same id."""
        self._steps = [self._init]

    def _plan(self, partitions: int) -> None:
        self._number += 1
        self._written = self._history.begin(self.name, self._number)
        chosen = self._random.sample(range(partitions), self._random.randint(1, partitions))
        if self.version == 1:
            self._steps.append(self._adding(chosen))
        for _ in range(self._random.randint(1, 2)):
            self._steps += [self._sending(partition, self._random.randint(1, 3)) for partition in chosen]
        if self._random.random() < 0.1:
            self._steps.insert(self._random.randrange(1, len(self._steps) + 1), self._sleep)
        self._steps.append(self._ending(is_commit=self._random.random() < 0.6))

    # Steps

    async def _sleep(self, _connection: Connection) -> None:
        await asyncio.sleep(self._random.choice((1, 2 * TIMEOUT_MS / 1000)))

    async def _init(self, connection: Connection) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        response = await self._ask(lambda: connection.ask(request, 5), lambda response: [response.error_code])
        self._take(response.producer_id, response.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch, self._sequences = producer_id, epoch, {}

    def _adding(self, partitions: Iterable[int]) -> Step:
        async def add(connection: Connection) -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))],
            )
            await self._ask(
                lambda: connection.ask(request, 3),
                lambda response: [
                    one.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for one in topic.results_by_partition
                ],
            )

        return add

    def _sending(self, partition: int, count: int) -> Step:
        """Return a step that sends a batch, and sometimes sends it again as after a lost response."""
        values: list[bytes] = []
        times = 2 if self._random.random() < 0.1 else 1

        async def send(connection: Connection) -> None:
            written = self._written
            assert written is not None
            if not values:
                values.extend(written.new_values(partition, count))
            sequence = self._sequences.get(partition, 0)
            for _ in range(times):
                data = batch_of_values(
                    *values,
                    producer_id=self._producer_id,
                    producer_epoch=self._epoch,
                    base_sequence=sequence,
                    is_transactional=True,
                )
                topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=data)])
                request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic])
                await self._ask(
                    lambda request=request: connection.ask(request, 12 if self.version == 2 else 11),  # type: ignore[misc]
                    lambda response: [response.responses[0].partition_responses[0].error_code],
                )
            self._sequences[partition] = sequence + count
            written.acknowledged.update(values)

        return send

    def _ending(self, *, is_commit: bool) -> Step:
        async def end(connection: Connection) -> None:
            written = self._written
            assert written is not None
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                committed=is_commit,
            )
            if is_commit:
                written.outcome = Outcome.UNKNOWN
            response = await self._ask(
                lambda: connection.ask(request, 5 if self.version == 2 else 4), lambda response: [response.error_code]
            )
            if is_commit:
                written.outcome = Outcome.COMMITTED
            if self.version == 2:
                self._take(response.producer_id, response.producer_epoch)

        return end

    async def _ask(self, ask: Callable[[], Awaitable[Any]], codes_of: Callable[[Any], list[int]]) -> Any:
        """Return the response without an error; try again where a client would. Raises FencedError, DisconnectedError."""
        while True:
            response = await ask()
            codes = {error_code(code) for code in codes_of(response)} - DONE
            if not codes:
                return response
            if not codes <= AGAIN:
                raise FencedError(str(codes))
            await asyncio.sleep(RETRY_S)
