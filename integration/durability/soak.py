"""A broker process and a model of it go through the same random story.

    python -m integration.durability.soak --minutes 10 --seed 1

The story produces records (with every codec, and with idempotent producers that send again), reads, deletes and compacts them. It
changes settings, deletes topics and creates them again under their names. It stops the broker, kills it, and kills it while
requests are under way. After each step it compares what the broker returns with the model, and after each start it compares
everything. The first difference ends the story. The program then prints the seed, the last steps, and the folder with the data
and the broker's log.

`test_soak.py` lets hypothesis choose the steps of short stories.
"""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from integration.durability.soak_model import ClusterModel, DifferenceError, Pair, PartitionModel, TopicModel
from integration.durability.soak_run import run
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.compression import CompressionType
from testing.clients.stock import CLIENTS
from testing.process.broker import BrokerProcess
from testing.wire.one_request import EARLIEST, LATEST, Wire, values

NAMES = ("apple", "pear", "plum")
GROUPS = ("readers", "writers", "others")
KEYS = tuple(b"key-%d" % n for n in range(8))
SETTINGS = {
    "segment.bytes": ("2000", "6000", "1048576"),
    "index.interval.bytes": ("0", "200", "4096"),
    "cleanup.policy": ("delete", "compact"),
    "delete.retention.ms": ("0", "86400000"),
    "flush.messages": ("1", "3", "9223372036854775807"),
    "compression.type": ("producer", "gzip", "uncompressed"),
}
OVERRIDES = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "offset.metadata.max.bytes": "1000",
}
NONE, UNKNOWN_TOPIC, EXISTS = 0, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.TOPIC_ALREADY_EXISTS)


def now_ms() -> int:
    """Return the time of the day, because a broker forgets producers whose records look a day old."""
    return time.time_ns() // 1_000_000


class Soak:
    """The steps. Each raises DifferenceError when the broker does not do what the model expects."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model, self.notes = folder, ClusterModel(), deque[str](maxlen=100)
        self.broker = BrokerProcess(folder, OVERRIDES)
        self.broker.data_dir = Path(f"{folder / 'one'},{folder / 'two'}")
        self._number = 0
        self._start()

    def close(self) -> None:
        self.wire.close()
        self.broker.close()

    def _start(self) -> None:
        self.broker.start()
        self.wire = Wire(self.broker.bootstrap)

    def _note(self, *what: object) -> None:
        self.notes.append(" ".join(map(str, what)))

    def _expect(self, what: str, got: object, wanted: object) -> None:
        if got != wanted:
            raise DifferenceError(f"{what}: got {got!s:.400}, and not {wanted!s:.400}")

    def partition(self, topic: str, number: int) -> tuple[int, PartitionModel]:
        """Return the index and the model of the partition with this number, modulo the number of partitions."""
        partitions = self.model.topics[topic].partitions
        return number % len(partitions), partitions[number % len(partitions)]

    # --- Topics -----------------------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, *, is_compacted: bool) -> None:
        self._note("create", topic, partitions, is_compacted)
        policy = "compact" if is_compacted else "delete"
        configs = {"cleanup.policy": policy, "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0"}
        error = self.wire.create_topic(topic, partitions, configs)
        self._expect(f"creating {topic}", error, EXISTS if topic in self.model.topics else NONE)
        if not error:
            self._created(topic, partitions, is_compacted=is_compacted)

    def _created(self, topic: str, partitions: int, *, is_compacted: bool) -> None:
        parts = [PartitionModel(is_compacted=is_compacted) for _ in range(partitions)]
        self.model.topics[topic] = TopicModel(parts, is_compacted)

    def delete(self, topic: str) -> None:
        self._note("delete", topic)
        error = self.wire.delete_topic(topic)
        self._expect(f"deleting {topic}", error, NONE if topic in self.model.topics else UNKNOWN_TOPIC)
        if not error:
            self.model.forget(topic)

    def create_again(self, topic: str) -> None:
        """Delete the topic and create it again at once, with the same number of partitions."""
        found = self.model.topics[topic]
        self.delete(topic)
        self.create(topic, len(found.partitions), is_compacted=found.is_compacted)

    def configure(self, topic: str, key: str, value: str) -> None:
        self._note("configure", topic, key, value)
        self._expect(f"{key}={value} for {topic}", self.wire.configure(topic, key, value), NONE)
        if key == "cleanup.policy":
            self.model.topics[topic].is_compacted = value == "compact"
            for one in self.model.topics[topic].partitions:
                one.is_compacted |= value == "compact"

    # --- Records ----------------------------------------------------------------------------------------------------------------

    def pairs(self, seed: int, count: int, size: int) -> list[Pair]:
        """Return records whose keys occur again, and some of which are tombstones; every value is different."""
        drawn, found = random.Random(seed), []
        for _ in range(count):
            self._number += 1
            value = b"%d:" % self._number + drawn.randbytes(drawn.randrange(size + 1))
            found.append((drawn.choice(KEYS), None if drawn.random() < 0.15 else value))
        return found

    def produce(self, topic: str, number: int, pairs: list[Pair], codec: CompressionType) -> None:
        index, partition = self.partition(topic, number)
        self._note("produce", topic, index, len(pairs), codec.name)
        error, first = self.wire.produce(topic, index, values(0, pairs, now_ms()), compression=codec)
        self._expect(f"producing to {topic}-{index}", error, NONE)
        partition.append(first, pairs)

    def produce_idempotently(self, topic: str, number: int, pairs: list[Pair], *, is_again: bool) -> None:
        """Send the producer's next batch, or its last one again, which the broker acknowledges at its first offset."""
        index, partition = self.partition(topic, number)
        if partition.producer is None:
            partition.producer, partition.sequence, partition.last_batch = self.wire.producer_id(), 0, None
        is_again = is_again and partition.last_batch is not None
        sequence, expected = partition.sequence, partition.end
        if is_again:
            assert partition.last_batch is not None
            sequence, expected, pairs = partition.last_batch
        self._note("produce idempotently", topic, index, len(pairs), "again" if is_again else "", partition.producer, sequence)
        producer_id, epoch = partition.producer
        batch = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        error, first = self.wire.produce(topic, index, values(0, pairs, now_ms()), **batch)
        self._expect(f"producing to {topic}-{index} with sequence {sequence}", (error, first), (NONE, expected))
        if not is_again:
            partition.append(first, pairs)
            partition.last_batch = sequence, first, pairs
            partition.sequence += len(pairs)

    def delete_records(self, topic: str, number: int, share: float) -> None:
        index, partition = self.partition(topic, number)
        offset = partition.start + int((partition.end - partition.start) * share)
        self._note("delete records", topic, index, offset)
        is_compacted = self.model.topics[topic].is_compacted
        wanted = (int(ErrorCode.POLICY_VIOLATION), -1) if is_compacted else (NONE, offset)
        self._expect(f"deleting records of {topic}-{index}", self.wire.delete_records(topic, index, offset), wanted)
        partition.start = partition.start if is_compacted else offset

    def fetch(self, topic: str, number: int, share: float, bytes_max: int) -> None:
        """Fetch from some offset, and compare the records with those that were written from there.

        There is no gap, except where compaction makes one.
        """
        index, partition = self.partition(topic, number)
        offset = partition.start + int((partition.end - partition.start) * share)
        self._note("fetch", topic, index, offset, bytes_max)
        read = self.wire.fetch(topic, index, offset, bytes_max=bytes_max)
        self._expect(f"fetching {topic}-{index} from {offset}", (read.error, read.end), (NONE, partition.end))
        found = {record.offset: (record.key, record.value) for record in read.records}
        self._expect("the records", found, {offset: partition.written.get(offset) for offset in found})
        if not partition.is_compacted:
            self._expect("the offsets", list(found), list(range(offset, offset + len(found))))
            self._expect("something, or the end", bool(found), offset < partition.end)

    def consume(self, topic: str, number: int, client: int) -> None:
        """Read with a stock client, unless compaction may remove records in the meantime."""
        index, partition = self.partition(topic, number)
        read = self.wire.read_all(topic, index)
        if read.records and not partition.is_compacted:
            chosen = CLIENTS[client % len(CLIENTS)]
            self._note("consume", topic, index, chosen.name)
            first = read.records[0].offset
            got = chosen.consume(self.broker.bootstrap, topic, len(read.records), first_offset=first, partition=index)
            wanted = [(record.offset, record.key, record.value) for record in read.records]
            self._expect(f"with {chosen.name}", [(one.offset, one.sample.key, one.sample.value) for one in got], wanted)

    # --- Groups -----------------------------------------------------------------------------------------------------------------

    def commit(self, group: str, topic: str, number: int, offset: int) -> None:
        index, _ = self.partition(topic, number)
        self._note("commit", group, topic, index, offset)
        self._expect(f"committing for {group}", self.wire.commit(group, topic, index, offset), NONE)
        self.model.committed[group, topic, index] = offset

    # --- Ends -------------------------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        self._note("restart")
        self.wire.close()
        self.broker.stop()
        for topic in self.model.topics.values():
            for partition in topic.partitions:
                partition.kept_start = partition.start
        self._start()
        self.check()

    def kill(self) -> None:
        self._note("kill")
        self.wire.close()
        self.broker.kill()
        self._start()
        self._settle({})
        self.check()

    def kill_while_producing(self, topic: str, number: int, batches: list[list[Pair]], delay_s: float) -> None:
        """Send requests one after the other without waiting, and kill the broker.

        A request without a response may have been done or not.
        """
        index, partition = self.partition(topic, number)
        self._note("kill while producing", topic, index, [len(pairs) for pairs in batches], delay_s)
        self.wire.send_batches(topic, index, [values(0, pairs, now_ms()) for pairs in batches])
        time.sleep(delay_s)  # anywhere on the way
        self.broker.kill()
        acknowledged = self.wire.acknowledged()
        for (error, first), pairs in zip(acknowledged, batches, strict=False):
            self._expect(f"producing to {topic}-{index}", error, NONE)
            partition.append(first, pairs)
        self.wire.close()
        self._start()
        self._settle({(topic, index): batches[len(acknowledged) :]})
        self.check()

    def kill_while_deleting(self, topic: str, delay_s: float) -> None:
        """Kill the broker while it deletes a topic: the topic is gone, or it is whole."""
        self._note("kill while deleting", topic, delay_s)
        self._kill_during(lambda: self.wire.send_delete_topic(topic), delay_s)
        if self.wire.fetch(topic, 0, 0).error == UNKNOWN_TOPIC:
            self.model.forget(topic)
        self._settle({})
        self.check()

    def kill_while_creating(self, topic: str, partitions: int, delay_s: float) -> None:
        """Kill the broker while it creates a topic: the topic is there, or it is not."""
        self._note("kill while creating", topic, partitions, delay_s)
        self._kill_during(lambda: self.wire.send_create_topic(topic, partitions), delay_s)
        if self.wire.fetch(topic, 0, 0).error != UNKNOWN_TOPIC:
            self._created(topic, partitions, is_compacted=False)
        self._settle({})
        self.check()

    def _kill_during(self, send: Callable[[], None], delay_s: float) -> None:
        send()
        time.sleep(delay_s)  # anywhere on the way
        self.broker.kill()
        self.wire.close()
        self._start()

    def _settle(self, maybe: dict[tuple[str, int], list[list[Pair]]]) -> None:
        """Take over from the broker what a kill leaves open."""
        for name, topic in self.model.topics.items():
            for index, partition in enumerate(topic.partitions):
                start, end = (self.wire.limit(name, index, which) for which in (EARLIEST, LATEST))
                try:
                    partition.settle(start, end, maybe.get((name, index), []))
                except DifferenceError as error:
                    raise DifferenceError(f"{name}-{index}: {error}") from None

    def check(self) -> None:
        """Compare everything that the broker has with the model."""
        for name, topic in self.model.topics.items():
            for index, partition in enumerate(topic.partitions):
                start, end = (self.wire.limit(name, index, which) for which in (EARLIEST, LATEST))
                read = self.wire.read_all(name, index, start)
                self._expect(f"reading {name}-{index}", read.error, NONE)
                try:
                    partition.check(start, end, read.records)
                except DifferenceError as error:
                    raise DifferenceError(f"{name}-{index}: {error}") from None
        for name in set(NAMES) - set(self.model.topics):
            self._expect(f"fetching {name}, which was deleted", self.wire.fetch(name, 0, 0).error, UNKNOWN_TOPIC)
        for group in GROUPS:
            for name, topic in self.model.topics.items():
                for index in range(len(topic.partitions)):
                    wanted = self.model.committed.get((group, name, index), -1)
                    got = self.wire.committed(group, name, index)
                    self._expect(f"what {group} committed for {name}-{index}", got, (NONE, wanted))


class Story:
    """A story: steps drawn from a seed."""

    def __init__(self, soak: Soak, seed: int) -> None:
        self.soak, self.random = soak, random.Random(seed)

    @property
    def lines(self) -> Iterable[str]:
        return self.soak.notes

    def finish(self) -> str:
        """Compare everything after a restart. There are no counts to return."""
        self.soak.restart()
        return ""

    def close(self) -> None:
        self.soak.close()

    def step(self) -> None:
        soak, drawn = self.soak, self.random
        topics = sorted(soak.model.topics)
        absent = sorted(set(NAMES) - set(topics))
        if not topics or (absent and drawn.random() < 0.05):
            soak.create(drawn.choice(absent), drawn.randint(1, 3), is_compacted=drawn.random() < 0.5)
            return
        topic, number = drawn.choice(topics), drawn.randrange(3)
        pairs = soak.pairs(drawn.getrandbits(32), drawn.randint(1, 12), drawn.choice([20, 100]))
        codec = drawn.choice(list(CompressionType))
        steps: list[tuple[float, Callable[[], None]]] = [
            (40, lambda: soak.produce(topic, number, pairs, codec)),
            (15, lambda: soak.produce_idempotently(topic, number, pairs, is_again=drawn.random() < 0.3)),
            (15, lambda: soak.fetch(topic, number, drawn.random(), drawn.choice([1, 500, 1 << 20]))),
            (8, lambda: soak.commit(drawn.choice(GROUPS), topic, number, drawn.randrange(1000))),
            (6, lambda: soak.configure(topic, *self._setting())),
            (5, lambda: soak.delete_records(topic, number, drawn.random())),
            (2, lambda: soak.create_again(topic)),
            (1, lambda: soak.delete(topic)),
            (1, lambda: soak.consume(topic, number, drawn.randrange(3))),
            (1, soak.check),
            (1, soak.restart),
            (1, soak.kill),
            (2, lambda: soak.kill_while_producing(topic, number, self._batches(), drawn.random() * 0.03)),
            (0.5, lambda: soak.kill_while_deleting(topic, drawn.random() * 0.01)),
        ]
        if absent:
            steps.append((0.5, lambda: soak.kill_while_creating(absent[0], number + 1, drawn.random() * 0.01)))
        drawn.choices([work for _, work in steps], [weight for weight, _ in steps])[0]()

    def _setting(self) -> tuple[str, str]:
        key = self.random.choice(sorted(SETTINGS))
        return key, self.random.choice(SETTINGS[key])

    def _batches(self) -> list[list[Pair]]:
        return [self.soak.pairs(self.random.getrandbits(32), self.random.randint(1, 8), 100) for _ in range(40)]


if __name__ == "__main__":
    sys.exit(run("soak", __doc__, lambda folder, seed: Story(Soak(folder), seed)))
