"""The transaction coordinator as the request handlers see it: it finds the shard of a transactional id, and keeps a shard for
each partition of `__transaction_state` that this broker leads.

Each outcome is passed to a callback, an ErrorCode where the operation was refused, in most cases before the call returns.

Source: TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.hashing import partition_of
from pybroker.coordinator.runtime.active import ignore
from pybroker.coordinator.runtime.appender import RuntimeSettings
from pybroker.coordinator.runtime.loader import Loader
from pybroker.coordinator.runtime.once import code_of, log_failure
from pybroker.coordinator.runtime.runtime import CoordinatorRuntime, Done
from pybroker.coordinator.topic import CoordinatorTopic
from pybroker.coordinator.transaction import ending as endings
from pybroker.coordinator.transaction import forgetting, listing, operations, unattended
from pybroker.coordinator.transaction.lost import name_lost_decisions
from pybroker.coordinator.transaction.markers import MarkerWriter
from pybroker.coordinator.transaction.operations import NEEDS_PRODUCER_ID
from pybroker.coordinator.transaction.other_coordinators import ask
from pybroker.coordinator.transaction.records import to_bytes
from pybroker.coordinator.transaction.remote_markers import RemoteMarkers
from pybroker.coordinator.transaction.shard import TransactionSettings, TransactionShard, replay_batch
from pybroker.metadata.features import transaction_version
from pybroker.metadata.names import TRANSACTION_STATE_TOPIC
from pybroker.model import BrokerId, CoordinatorEpoch, GroupId, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.compression import CompressionType

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.config.broker import BrokerConfig
    from pybroker.coordinator.runtime.result import CoordinatorResult, Producer
    from pybroker.coordinator.service import GroupCoordinator
    from pybroker.coordinator.transaction.state import Ending, Transaction
    from pybroker.log.producers.producer_entry import ProducerEntry
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta
    from pybroker.purgatory.timer import OperationTimer
    from pybroker.replication.partition import Partition
    from pybroker.replication.peers import Peers
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

_ACKS_ALL: Final = -1

MayNeedId = Callable[[TransactionShard, int, "ProducerId | None"], "CoordinatorResult"]
"""An operation that may respond NEEDS_PRODUCER_ID as long as it gets None."""


class TransactionCoordinator:
    """The coordinator of the transactional ids whose partitions this broker leads. It is used from the event loop only.

    `groups` returns the coordinator of groups, whose offsets transactions may commit. `call_soon` runs its argument in the loop's
    next iteration. `freeze` is the loader's. `peers` are the other brokers of the cluster, if there can be any.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        timer: OperationTimer,
        replicas: ReplicaManager,
        controller: Controller,
        groups: Callable[[], GroupCoordinator],
        call_soon: Callable[[Callable[[], None]], object],
        freeze: Callable[[], None] | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._clock, self._peers, self._timeout_ms = clock, peers, config.request_timeout_ms
        self._replicas = replicas
        self._controller = controller
        self.topic = CoordinatorTopic(TRANSACTION_STATE_TOPIC, controller, replicas)
        timeout_ms = config.request_timeout_ms
        remote = None if peers is None else RemoteMarkers(peers, lambda: controller.image, call_soon, timeout_ms=timeout_ms)
        self.markers = MarkerWriter(replicas, clock, groups, call_soon, timeout_ms=timeout_ms, sent=self._sent, remote=remote)
        settings = TransactionSettings(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            clean_up_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            transaction_version=lambda: transaction_version(controller.image),
            send=self.markers.send,
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            RuntimeSettings(
                topic=TRANSACTION_STATE_TOPIC,
                timeout_ms=config.request_timeout_ms,
                required_acks=_ACKS_ALL,
                compression=CompressionType.NONE,
            ),
            clock=clock,
            timer=timer,
            replicas=replicas,
            new_shard=lambda: TransactionShard(settings),
            serialize=to_bytes,
            call_soon=call_soon,
        )
        self._loader = Loader(
            self.runtime,
            call_soon,
            replay_batch=replay_batch,
            bytes_max=config.transaction_state_log_load_buffer_size,
            freeze=freeze,
        )

    # Where transactional ids are coordinated

    def start(self) -> None:
        """Load the partitions that this broker leads."""
        self.follow_leadership()

    def stop(self) -> None:
        """Unload all partitions; requests get NOT_COORDINATOR, and what is ending ends after the next start."""
        for partition in self.runtime.partitions():
            self.runtime.unload(partition)

    def apply_image(self, _old: ClusterImage, _new: ClusterImage, delta: ImageDelta) -> Iterator[None]:
        """Follow a change of the cluster. The replica manager must have followed it before, and its rest come before the rest."""
        rest = self.topic.follow_change(delta, self.runtime.leader_epochs, self._load, self.runtime.unload)
        # Also of a topic that was created again: it is another topic.
        gone = {topic.name: len(topic.partitions) for topic in delta.removed}
        if gone:
            self.markers.note_removed(gone)
            self._note_gone(gone)
            for partition in self.runtime.partitions():
                self.runtime.write(partition, partial(forgetting.begin, gone=gone), ignore)
        return self._followed(rest, gone)

    def _followed(self, rest: Iterator[None], gone: Mapping[str, int]) -> Iterator[None]:
        yield from rest
        self._note_gone(gone)  # in the shards that the change has brought

    def _note_gone(self, gone: Mapping[str, int]) -> None:
        for shard in self.runtime.loading_shards if gone else ():
            shard.gone.add_topics(gone)

    def follow_leadership(self) -> None:
        """Load and unload partitions by what this broker leads now, also without a change of the cluster."""
        self.topic.follow_leadership(self.runtime.leader_epochs(), self._load, self.runtime.unload)

    def _load(self, number: int, replica: Partition) -> None:
        first = partial(unattended.first_operation, partition=number, epoch=CoordinatorEpoch(replica.leader_epoch))
        self._loader.start(number, replica.log, first, self._examine)

    def _examine(self, shard: TransactionShard) -> Pausing[None]:
        """Look through a shard that has replayed its log, before it serves requests."""
        yield from name_lost_decisions(shard, self._entry_of)
        yield from forgetting.missing(shard, self._exists)

    def _entry_of(self, topic_partition: TopicPartition, producer_id: ProducerId) -> ProducerEntry | None:
        replica = self._replicas.partition(topic_partition)
        return None if isinstance(replica, ErrorCode) else replica.log.producers.producers.get(producer_id)

    def _exists(self, topic_partition: TopicPartition) -> bool:
        return self._controller.image.has_partition(topic_partition)

    def leader_of(self, transactional_id: str) -> BrokerId | None:
        """Return the broker that coordinates the id, or None while the partition has no leader or the topic is missing."""
        return self.topic.leader_of(partial(partition_of, GroupId(transactional_id)))

    def _partition(self, transactional_id: str) -> int:
        return partition_of(GroupId(transactional_id), self.topic.partition_count or 1)

    # Producers

    def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: Producer | None, done: Done) -> None:
        """Give a transactional id to a producer; `done` gets its Producer."""

        def operation(shard: TransactionShard, now_ms: int, unused: ProducerId | None) -> CoordinatorResult:
            return operations.init_producer_id(
                shard, now_ms, transactional_id=transactional_id, timeout_ms=timeout_ms, expected=expected, unused=unused
            )

        self._write_with_id(self._partition(transactional_id), operation, done)

    def add_partitions(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], done: Done) -> None:
        """Add partitions to the transaction; `done` gets a code. `partitions` must remain as it is until then."""
        self.runtime.write(
            self._partition(transactional_id),
            lambda shard, now_ms: operations.add_partitions(shard, now_ms, transactional_id, producer, partitions),
            done,
        )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], done: Done
    ) -> None:
        """Look whether partitions belong to the transaction; `done` gets a code for each, or a code for all. `partitions` must
        remain as it is until then.
        """
        self.runtime.read(
            self._partition(transactional_id),
            lambda shard: operations.verify_partitions(shard, transactional_id, producer, partitions),
            done,
        )

    def ask(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], done: Done, *, adds: bool
    ) -> None:
        """Add partitions to the transaction, or else verify that they belong to it, at the broker that coordinates the id, which
        may be another one; `done` gets what that of `verify_partitions` gets.
        """
        coordinator = self.leader_of(transactional_id)
        if self._peers is None or coordinator in {None, self._controller.image.broker_id}:
            (self.add_partitions if adds else self.verify_partitions)(transactional_id, producer, partitions, done)
        else:
            assert coordinator is not None
            ask(self._peers, coordinator, transactional_id, producer, partitions, done, adds=adds, timeout_ms=self._timeout_ms)

    def end(self, transactional_id: str, producer: Producer, version: int, done: Done, *, is_commit: bool) -> None:
        """Commit or abort; `done` gets the Producer of the next transaction as soon as the decision is durable."""

        def operation(shard: TransactionShard, now_ms: int, unused: ProducerId | None) -> CoordinatorResult:
            return operations.end(shard, now_ms, transactional_id, producer, version=version, unused=unused, is_commit=is_commit)

        self._write_with_id(self._partition(transactional_id), operation, done)

    # Administrators

    def describe(self, transactional_id: str, done: Done) -> None:
        """Look up an id; `done` gets its Transaction, or a code."""
        self.runtime.read(self._partition(transactional_id), lambda shard: listing.describe(shard, transactional_id), done)

    def list_ids(self, filters: listing.Filters) -> Pausing[list[tuple[str, Transaction]] | ErrorCode]:
        """Find the ids that pass the filters, between which others may get their turn; or COORDINATOR_LOAD_IN_PROGRESS, or
        INVALID_REGULAR_EXPRESSION.
        """
        if self.runtime.loading_count:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        try:
            return (yield from listing.matching(self.runtime.shards, filters, self._clock.time_ms()))
        except KafkaError as error:
            return error.code

    def open_transactions(self) -> listing.OpenTransactions:
        """Count the open transactions, for the metrics, whose thread may call it."""
        return listing.open_transactions(tuple(self.runtime.shards), self._clock.time_ms())

    def _write_with_id(self, partition: int, operation: MayNeedId, done: Done) -> None:
        """Run an operation, and again with a producer id that was never used if it needs one."""

        def first(outcome: Any) -> None:
            if outcome is NEEDS_PRODUCER_ID:
                asyncio.ensure_future(again())  # noqa: RUF006  it cannot be lost: it waits for the store, which refers to it
            else:
                done(outcome)

        async def again() -> None:
            try:
                unused = await self._controller.producer_ids.next()
                self.runtime.write(partition, lambda shard, now_ms: operation(shard, now_ms, unused), done)
            except KafkaError as error:
                done(error.code)
            except Exception as error:  # a task has no caller that would respond
                log_failure("The assignment of a producer id", error)
                done(code_of(error))

        self.runtime.write(partition, lambda shard, now_ms: operation(shard, now_ms, None), first)

    def _sent(self, ending: Ending, is_fenced: bool) -> None:
        """Complete a transaction whose partitions have their markers, or send to those that are left later."""
        step = endings.send_again if ending.partitions else endings.complete
        self.runtime.write(ending.shard_partition, partial(endings.cancel if is_fenced else step, ending=ending), ignore)
