"""The actions of a broker in a leg of a history, and the promises that it makes by them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from pybroker.log.checkpoints.checkpoint import CLEAN_SHUTDOWN_FILE
from pybroker.metadata.config_changes import TOPIC_KIND, ConfigChange, Edit, Operation
from pybroker.metadata.image import ConfigResource
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.compression import CompressionType
from tests.crash.check import make_batch, produce, require, send
from tests.crash.model import Batch, Model, PartitionModel, Promises, TopicModel, TopicState

if TYPE_CHECKING:
    from pybroker.log.log import Log
    from testing.simulation.broker import Process
    from testing.simulation.faults import Fault
    from tests.crash.history import Plan

KEYS = tuple(b"key%d" % number for number in range(5))
CHECKPOINTED_S = 15.0
"""The time after which every periodic checkpoint was written at least once, from beginning to end."""


@dataclass
class _Producer:
    """An idempotent producer of one partition, and its last batch."""

    producer_id: int
    sequence: int = 0
    last: Batch | None = None


class Actions:
    """The actions of a leg, which are noted in `notes`."""

    def __init__(
        self,
        model: Model,
        process: Process,
        random: Random,
        plan: Plan,
        notes: list[str],
        fault: Fault | None,
        away: tuple[str, ...],
    ) -> None:
        self._model = model
        self._broker = process.broker
        self._random = random
        self._plan = plan
        self._notes = notes
        self._fault = fault
        self._away = away
        self._producers: dict[tuple[bytes, int], _Producer] = {}
        self._is_started = False

    async def live(self) -> None:
        """Start, act, and maybe stop."""
        await self._broker.start()
        self._is_started = True
        kinds: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "create": (4, self._create),
            "delete": (2, self._delete),
            "produce": (24, self._produce),
            "burst": (5, self._burst),
            "retry": (3, self._retry),
            "delete records": (4, self._delete_records),
            "settings": (2, self._alter),
            "move": (3, self._move),
            "rest": (5, self._rest),
            "long rest": (4, self._long_rest),
        }
        chosen = {kind: one for kind, one in kinds.items() if self._plan.kinds is None or kind in self._plan.kinds}
        weights = [self._plan.weights.get(kind, weight) for kind, (weight, _) in chosen.items()]
        for _ in range(self._random.randint(self._plan.actions // 2, self._plan.actions)):
            if self._broker.failed.is_set():
                return
            (kind,) = self._random.choices(list(chosen), weights)
            await chosen[kind][1]()
            self._require_directories()
        if self._random.random() < 0.4:
            self._notes.append("stop")
            await self._broker.stop()
            self._is_started = False
            for topic in self._model.there():
                for partition in topic.partitions.values():
                    self._note_stopped(topic, partition)

    def _note_stopped(self, topic: TopicModel, partition: PartitionModel) -> None:
        log = self._broker.log_manager.get(partition.topic_partition)
        if log is not None:
            self._note(topic, partition, log)
            if self._broker.filesystem.exists(f"{log.log_directory.path}/{CLEAN_SHUTDOWN_FILE}"):
                partition.durable_end = partition.end
                partition.start_min = max(partition.start_min, log.log_start_offset)

    def promises(self) -> Promises:
        """Return what is promised now, also in the middle of an action."""
        for topic in self._model.topics.values():
            if topic.state not in {TopicState.THERE, TopicState.DELETING}:
                continue
            for partition in topic.partitions.values():
                log = self._log(topic, partition)
                if log is not None:
                    self._note(topic, partition, log)
                elif (offline := self._offline_log(topic, partition)) is not None:
                    self._note_start(topic, partition, offline)
        return self._model.promises()

    def _note_start(self, topic: TopicModel, partition: PartitionModel, log: Log) -> None:
        """Note how far retention may have gone; the step after it may have failed, and taken the log offline."""
        if "delete" in topic.settings.get("cleanup.policy", "delete"):
            partition.start_max = max(partition.start_max, log.log_start_offset)

    def _note(self, topic: TopicModel, partition: PartitionModel, log: Log) -> None:
        partition.durable_end = max(partition.durable_end, min(log.recovery_point, partition.end))
        self._note_start(topic, partition, log)
        found = self._broker.replica_manager.partitions.get(partition.topic_partition)
        if found is not None:
            partition.visible_end = max(partition.visible_end, min(found.high_watermark, partition.end))
            partition.leader_epoch = max(partition.leader_epoch, found.leader_epoch)

    def _log(self, topic: TopicModel, partition: PartitionModel) -> Log | None:
        """Return the partition's log, unless it is offline."""
        if not self._is_started:
            return None
        found = self._broker.replica_manager.partitions.get(partition.topic_partition)
        if found is None or found.log.topic_id != topic.topic_id or found.log.log_directory.is_offline:
            return None
        return found.log

    def _offline_log(self, topic: TopicModel, partition: PartitionModel) -> Log | None:
        """Return the partition's log if its directory failed since the start."""
        log = self._broker.log_manager.get(partition.topic_partition) if self._is_started else None
        return log if log is not None and log.topic_id == topic.topic_id else None

    def _any(self) -> tuple[TopicModel, PartitionModel, Log] | None:
        """Choose a partition that can be used."""
        usable = [
            (topic, partition, log)
            for topic in self._model.there()
            for partition in topic.partitions.values()
            if (log := self._log(topic, partition)) is not None
        ]
        return self._random.choice(usable) if usable else None

    # --- topics ---

    async def _create(self) -> None:
        names = [name for name in self._plan.names if name not in self._broker.controller.image.topics]
        if not names:
            return
        name, random = self._random.choice(names), self._random
        settings = {
            "segment.bytes": str(random.choice((250, 400, 900))),
            "index.interval.bytes": random.choice(("0", "200")),
            "file.delete.delay.ms": random.choice(("0", "3000", "60000")),
            "cleanup.policy": random.choice(("delete", "delete", "compact")),
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": random.choice(("0", "100000000")),
        }
        if random.random() < 0.3:
            settings["retention.bytes"] = str(random.choice((300, 1500)))
        settings["retention.granularity"] = random.choice(("record", "record", "segment"))
        if random.random() < 0.4:
            settings["flush.messages"] = random.choice(("1", "1", "5"))
        settings |= self._plan.settings
        count = random.randint(1, 3)
        self._notes.append(f"create {name} with {count} partitions and {settings}")
        self._model.unnamed = (name,)
        (outcome,) = await self._broker.controller.create_topics([NewTopic(name=name, partition_count=count, configs=settings)])
        self._model.unnamed = ()
        topic = outcome.topic
        if topic is None:
            self._tolerate(outcome.error, f"{name} cannot be created")
            topic = self._broker.controller.image.topics.get(name)
            if topic is None:
                return
        made = TopicModel(name, topic.topic_id, TopicState.THERE, settings)
        for number in range(count):
            made.partitions[number] = PartitionModel(TopicPartition(name, number))
            made.partitions[number].is_compacted = "compact" in settings["cleanup.policy"]
        self._model.topics[topic.topic_id] = made

    async def _delete(self) -> None:
        there = self._model.there()
        if not there:
            return
        topic = self._random.choice(there)
        self._notes.append(f"delete {topic.name}")
        topic.state = TopicState.DELETING
        (outcome,) = await self._broker.controller.delete_topics([topic.topic_id])
        if outcome.error is None:
            topic.state = TopicState.GONE
        else:
            self._tolerate(outcome.error, f"{topic.name} cannot be deleted")

    async def _alter(self) -> None:
        there = self._model.there()
        if not there:
            return
        topic, random = self._random.choice(there), self._random
        name, text = random.choice(
            (("flush.messages", "1"), ("flush.messages", "3"), ("retention.bytes", "400"), ("cleanup.policy", "compact"))
        )
        if name in self._plan.settings:
            return
        self._notes.append(f"{topic.name}: {name}={text}")
        before = dict(topic.settings)
        if name == "cleanup.policy":
            for partition in topic.partitions.values():
                partition.is_compacted = True
            topic.settings["cleanup.policy"] = "compact,delete"  # what either may do
        change = ConfigChange(resource=ConfigResource(TOPIC_KIND, topic.name), edits=[Edit(name, Operation.SET, text)])
        (error,) = await self._broker.controller.alter_configs([change])
        if error is None:
            topic.settings = before | {name: text}
        else:
            self._tolerate(error, f"{topic.name} cannot be changed")

    # --- records ---

    async def _produce(self) -> None:
        chosen = self._any()
        if chosen is not None:
            await self._produce_to(*chosen)

    async def _burst(self) -> None:
        """Send several requests, none of which waits for the response to another."""
        chosen = self._any()
        if chosen is not None:
            await asyncio.gather(*(self._produce_to(*chosen) for _ in range(self._random.randint(2, 6))))

    async def _produce_to(self, topic: TopicModel, partition: PartitionModel, log: Log) -> None:
        random = self._random
        name, number = topic.name.encode(), len(partition.batches)
        records = tuple(
            (
                random.choice(KEYS),
                None if random.random() < 0.15 else b"%s:%d:%d:value" % (name, number, at),
            )
            for at in range(random.randint(1, 4))
        )
        compression = random.choice((CompressionType.NONE, CompressionType.NONE, CompressionType.GZIP, CompressionType.ZSTD))
        producer = None
        if random.random() < 0.5:
            known = self._producers.setdefault(
                (topic.topic_id, partition.topic_partition.partition), _Producer(random.randrange(1, 1 << 40))
            )
            producer = (known.producer_id, 0, known.sequence)
        batch = Batch(records, make_batch(records, producer, compression=compression), producer)
        self._notes.append(f"produce {len(records)} to {partition.topic_partition} at {log.log_end_offset} as {producer}")
        written = await self._send(topic, partition, log, batch)
        if written is not None and producer is not None:
            known.last = written

    async def _send(self, topic: TopicModel, partition: PartitionModel, log: Log, batch: Batch) -> Batch | None:
        """Send a batch that is new; returns it as it was written, None when it was not."""
        if self._log(topic, partition) is not log or partition.in_flight:
            return None
        tp, before, key = partition.topic_partition, log.log_end_offset, (topic.topic_id, partition.topic_partition.partition)
        require(before == partition.end, f"{tp} ends at {before}, written was up to {partition.end}")
        is_flushed = topic.settings.get("flush.messages") == "1"
        epoch = self._broker.replica_manager.partitions[tp].leader_epoch
        partition.in_flight = (batch,)
        response = send(self._broker, tp, batch.data)
        is_written = partition.in_flight == (batch,) and log.log_end_offset > before
        if is_written:
            batch = batch._replace(first_offset=before, leader_epoch=epoch)
            partition.batches.append(batch)
            partition.end, partition.in_flight = batch.end_offset, ()
            if batch.producer is not None:
                self._producers[key].sequence += len(batch.records)
        result = await response
        if result.error_code is ErrorCode.REQUEST_TIMED_OUT:
            return None  # a slow disk: the batch is written, and the client has no response
        if result.error_code is not ErrorCode.NONE:
            self._tolerate(KafkaError(result.error_code), f"an append to {tp} at {before}")
            return None
        require(is_written, f"{tp}: an append at {before} is acknowledged and not there")
        require(result.base_offset == batch.first_offset, f"{tp}: an append at {batch.first_offset} gets {result}")
        partition.acked_end = max(partition.acked_end, batch.end_offset)
        if is_flushed:
            partition.durable_end = max(partition.durable_end, batch.end_offset)
        return batch

    async def _retry(self) -> None:
        chosen = self._any()
        if chosen is None:
            return
        topic, partition, log = chosen
        known = self._producers.get((topic.topic_id, partition.topic_partition.partition))
        if known is None or known.last is None or known.last.end_offset <= partition.start_max:
            return
        tp, end = partition.topic_partition, log.log_end_offset
        self._notes.append(f"retry the batch at {known.last.first_offset} of {tp}")
        result = await produce(self._broker, tp, known.last.data)
        if result.error_code is ErrorCode.REQUEST_TIMED_OUT:
            return
        if result.error_code is not ErrorCode.NONE:
            self._tolerate(KafkaError(result.error_code), f"a retry of {known.last.first_offset} to {tp}")
            return
        is_same = (result.base_offset, log.log_end_offset) == (known.last.first_offset, end)
        require(is_same, f"{tp}: the batch at {known.last.first_offset}, sent again at the end {end}, gets {result}")

    async def _delete_records(self) -> None:
        chosen = self._any()
        if chosen is None or "delete" not in chosen[0].settings["cleanup.policy"]:
            return
        _, partition, log = chosen
        high_watermark = self._broker.replica_manager.high_watermark(partition.topic_partition)
        offset = self._random.randint(min(log.log_start_offset, high_watermark), high_watermark)
        self._notes.append(f"delete records of {partition.topic_partition} below {offset}")
        partition.start_max = max(partition.start_max, offset)
        try:
            log.increment_log_start_offset(Offset(offset), high_watermark=high_watermark)
        except KafkaError as error:
            self._tolerate(error, f"deleting records of {partition.topic_partition}")

    # --- the rest ---

    async def _move(self) -> None:
        chosen = self._any()
        directories = [one for one in self._broker.log_manager.directories if not one.is_offline]
        if chosen is None or not directories:
            return
        tp, directory = chosen[1].topic_partition, self._random.choice(directories)
        self._notes.append(f"move {tp} to {directory.path}")
        try:
            self._broker.replica_manager.moves.start(tp, directory)
        except KafkaError as error:
            self._tolerate(error, f"moving {tp}")
        if self._random.random() < 0.5:  # with others being written and checkpoints at the same time
            for _ in range(6):
                await self._produce()
                self._broker.log_manager.passes.checkpoint()
                await asyncio.sleep(0.001)

    async def _rest(self) -> None:
        seconds = self._random.choice((0.01, 0.5, 3.0))
        self._notes.append(f"rest {seconds} s")
        await asyncio.sleep(seconds)

    async def _long_rest(self) -> None:
        """Rest long enough for all passes."""
        self._notes.append(f"rest {CHECKPOINTED_S} s")
        starts = [
            (topic, partition, log, log.log_start_offset)
            for topic in self._model.there()
            for partition in topic.partitions.values()
            if (log := self._log(topic, partition)) is not None
        ]
        await asyncio.sleep(CHECKPOINTED_S)
        for topic, partition, log, start in starts:
            if self._log(topic, partition) is log:
                partition.start_min = max(partition.start_min, start)

    def _require_directories(self) -> None:
        """Require that a directory is offline only where a fault has struck or where the directory is away."""
        for directory in self._broker.log_manager.directories:
            is_explained = directory.failure is None or directory.path in self._away or self._has_struck
            require(is_explained, f"{directory.path} goes offline, and nothing has failed: {directory.failure!r}")

    @property
    def _has_struck(self) -> bool:
        return self._fault is not None and bool(self._fault.hits)

    def _tolerate(self, error: KafkaError | None, what: str) -> None:
        """Accept an error where a disk has failed, and nowhere else."""
        self._require_directories()
        is_offline = any(one.is_offline for one in self._broker.log_manager.directories)
        require(self._has_struck or is_offline, f"{what}: {error}")
