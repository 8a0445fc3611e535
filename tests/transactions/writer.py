"""A transactional producer that notes what it does. It survives the broker, and sends a request again that got no response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pybroker.protocol.messages.end_txn import EndTxnRequest
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.error_codes import error_code
from testing.scenes.api.whole import NOW_MS
from testing.transactions.history import History, Outcome, Written
from tests.transactions.connection import Connection, DisconnectedError

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC: Final = "t"
REMOVED_TOPIC: Final = "removed"
"""The name of a topic that is deleted and made again in the middle of transactions."""
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

    sleeps: tuple[float, ...] = (1, 2 * TIMEOUT_MS / 1000)
    """How long a writer may sleep in the middle of a transaction, in seconds: shorter or longer than the transaction may take."""
    sleep_share = 0.1

    def __init__(
        self, name: str, transactional_id: str, version: int, random: Random, history: History, *, removed: bool = False
    ) -> None:
        """Make a writer, which has begun nothing; with `removed` it also writes to the topic that is deleted and made again."""
        self.name, self.transactional_id, self.version = name, transactional_id, version
        self._random, self._history, self._removed = random, history, removed
        self._producer_id, self._epoch = -1, -1
        self._sequences: dict[int, int] = {}
        self._number = 0
        self._steps: list[Step] = [self._init]
        self._written: Written | None = None

    async def live(self, connection: Connection, transactions: int, partitions: int) -> None:
        """Write this many transactions more, or fewer when the broker ends. A transaction begun then continues next time."""
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
            self._lose()
            self._steps = [self._init]
        else:
            self._steps.pop(0)

    def begin_again(self) -> None:
        """Forget everything, as a new instance does that has the same id."""
        self._lose()
        self._steps = [self._init]

    def _lose(self) -> None:
        """Forget what is not certain after a transaction that cannot be continued."""

    def _ended(self, *, is_commit: bool) -> None:
        """Note the end of a transaction."""

    def _plan(self, partitions: int) -> None:
        self._steps += self._transaction(partitions)

    def _transaction(self, partitions: int, *more: Step) -> list[Step]:
        """Begin a transaction, and return its steps; `more` come before its end."""
        self._number += 1
        self._written = self._history.begin(self.name, self._number)
        chosen = self._random.sample(range(partitions), self._random.randint(1, partitions))
        steps = [self._adding(chosen)] if self.version == 1 else []
        for _ in range(self._random.randint(1, 2)):
            steps += [self._sending(partition, self._random.randint(1, 3)) for partition in chosen]
        steps += more
        if self._removed and self._random.random() < 0.5:
            steps.insert(self._random.randrange(len(steps) + 1), self._touch)
        if self._random.random() < self.sleep_share:
            steps.insert(self._random.choice((self._random.randrange(1, len(steps) + 1), len(steps))), self._sleep)
        return [*steps, self._ending(is_commit=self._random.random() < 0.6)]

    # Steps

    async def _sleep(self, _connection: Connection) -> None:
        await asyncio.sleep(self._random.choice(self.sleeps))

    async def _init(self, connection: Connection) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        response = await self._ask(lambda: connection.ask(request, 5), lambda response: [response.error_code])
        self._take(response.producer_id, response.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch, self._sequences = producer_id, epoch, {}

    async def _touch(self, connection: Connection) -> None:
        """Write a record to the topic that is deleted and made again."""
        try:
            if self.version == 1:
                await self._adding([0], REMOVED_TOPIC)(connection)
            sequence = self._sequences.get(-1, 0)
            await self._send(connection, REMOVED_TOPIC, 0, sequence, [b"removed"])
            self._sequences[-1] = sequence + 1
        finally:
            self._history.touches[self._producer_id] = self._history.stamp()

    def _adding(self, partitions: Iterable[int], topic: str = TOPIC) -> Step:
        async def add(connection: Connection) -> None:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._producer_id,
                v3_and_below_producer_epoch=self._epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
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
                await self._send(connection, TOPIC, partition, sequence, values)
            self._sequences[partition] = sequence + count
            written.acknowledged.update(values)

        return send

    async def _send(self, connection: Connection, topic: str, partition: int, sequence: int, values: list[bytes]) -> None:
        records = [Record(Offset(place), NOW_MS, value, value) for place, value in enumerate(values)]  # no key occurs twice
        data = build_batch(
            records,
            producer_id=ProducerId(self._producer_id),
            producer_epoch=ProducerEpoch(self._epoch),
            base_sequence=sequence,
            is_transactional=True,
        )
        one = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=1000, topic_data=[one])
        await self._ask(
            lambda: connection.ask(request, 12 if self.version == 2 else 11),
            lambda response: [response.responses[0].partition_responses[0].error_code],
        )

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
            self._ended(is_commit=is_commit)
            if self.version == 2:
                self._take(response.producer_id, response.producer_epoch)

        return end

    async def _ask(
        self,
        ask: Callable[[], Awaitable[Any]],
        codes_of: Callable[[Any], list[int]],
        allowed: frozenset[ErrorCode] = frozenset(),
    ) -> Any:
        """Return the response without an error that is not `allowed`; try again where a client would. Raises FencedError,
        DisconnectedError.
        """
        while True:
            response = await ask()
            codes = {error_code(code) for code in codes_of(response)} - DONE - allowed
            if not codes:
                return response
            if not codes <= AGAIN:
                raise FencedError(str(codes))
            await asyncio.sleep(RETRY_S)
