"""Apache Kafka's cleaner and ours on the same log: what each of them keeps, batch by batch.

    python -m integration.conformance.cleaner_oracle --seed 1 --cases 500 [--cut]

The command draws logs (keys, tombstones, records without a key, idempotent and transactional producers, every codec, old and new
timestamps, large and small batches and segments). Both cleaners clean each log in several passes at the same times, and the
command prints where they differ.

With `--cut`, our retention cuts the head of each log (`cleanup.policy=compact,delete`) before the first pass and between passes,
and both cleaners get what is left.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.log.checkpoints.checkpoint import CLEANER_OFFSET_FILE, read_offsets
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.results import AppendOrigin
from pybroker.log.segments.segment_files import CLEANED_SUFFIX, DATA_SUFFIX, SWAP_SUFFIX
from pybroker.model import CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import BatchView, Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, delete_old_segments
from testing.waiting import line_of

PROGRAM = JAVA_SOURCES / "KafkaCleaner.java"
DAY_MS = 86_400_000
EXIT_TIMEOUT_S = 30
CASES_OF_A_JVM = 50
"""Kafka keeps the files of the segments that it has replaced open until it removes them, which its own time decides and not ours.

"""
MAX_IDEMPOTENT = 10
"""Producers with a greater id are transactional."""


class KeptBatch(NamedTuple):
    """A batch of a cleaned log, with everything that a reader may depend on."""

    base_offset: int
    last_offset: int
    is_control: bool
    attributes: int
    producer: tuple[int, int, int]
    max_timestamp: int
    delete_horizon_ms: int | None
    records: tuple[tuple[int, bytes | None, bytes | None, int], ...]


class Unsynced(Filesystem):
    """A file system that syncs nothing, because nothing here has to last."""

    def sync(self, fd: int) -> None:
        pass


class KafkaCleaner:
    """The JVM with Kafka's cleaner (KafkaCleaner.java)."""

    def __init__(self, release: str = "3.9.2") -> None:
        self._process = subprocess.Popen(
            [*quick_java(classpath(release), PROGRAM), "-Xmx384m", PROGRAM.stem],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def clean(
        self,
        directory: Path,
        *,
        high_watermark: int,
        now_ms: int,
        first_dirty_offset: int,
        log_start_offset: int,
        settings: Mapping[str, object],
    ) -> tuple[int, int, int]:
        """Make one pass. Returns where the pass began, the first offset that it could not clean, and where it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        options = [f"{name}={value}" for name, value in settings.items()]
        words = [directory, high_watermark, now_ms, first_dirty_offset, log_start_offset, *options]
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = line_of(self._process.stdout, "Kafka's cleaner")
        if not line:
            raise RuntimeError(f"Kafka's cleaner ended: {self._process.communicate(timeout=EXIT_TIMEOUT_S)[1]}")
        began, uncleanable, ended = map(int, line.split())
        return began, uncleanable, ended

    def close(self) -> None:
        """End the JVM."""
        self._process.communicate(timeout=EXIT_TIMEOUT_S)


@dataclass
class Pass:
    """The records that both cleaners kept after a pass, and where each of them ended."""

    ours: list[KeptBatch]
    theirs: list[KeptBatch]
    ended: tuple[int, int]


def offsets_and_keys(kept: list[KeptBatch]) -> list[tuple[int, bytes | None]]:
    """Return the offset and key of each record; the key of a control record is its kind."""
    return [(offset, key) for batch in kept for offset, key, _, _ in batch.records]


def kept_in(directory: Path, log_start_offset: int = 0) -> list[KeptBatch]:
    """Return the batches of a log's directory that end at the log start offset or behind it."""
    assert not [path for path in directory.iterdir() if path.name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    return [
        _kept(batch)
        for path in sorted(directory.glob("*" + DATA_SUFFIX))
        for batch in batches(memoryview(path.read_bytes()))
        if batch.last_offset >= log_start_offset
    ]


def _kept(batch: BatchView) -> KeptBatch:
    assert batch.is_valid
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    records = tuple((one.offset, one.key, one.value, one.timestamp) for one in batch.records())
    return KeptBatch(
        batch.base_offset,
        batch.last_offset,
        batch.is_control,
        batch.attributes,
        producer,
        batch.max_timestamp,
        batch.delete_horizon_ms,
        records,
    )


class Case:
    """A log, drawn from a seed, of which each cleaner gets a copy.

    It had `record_count` records, including `marker_count` markers. If `is_cut`, retention cuts its head before the first pass
    and between passes; `cuts` shows how often the first segment was copied for that.
    """

    def __init__(self, seed: int, folder: Path, *, is_cut: bool = False) -> None:
        self._random = seeded = random.Random(seed)
        self._is_cut, self._cutting, self.cuts = is_cut, random.Random(seed), 0
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()
        self._keys = [b"", *(b"key-%d" % n for n in range(seeded.choice([2, 5, 30])))]
        self._theirs = folder / "theirs" / str(TP)
        self._bounds: list[Offset] = []
        now_ms = self._write(folder / "ours", seeded.choice([10, 60, 120, 120]))
        whole = kept_in(folder / "ours" / str(TP))
        self.record_count = len(offsets_and_keys(whole))
        self.marker_count = sum(batch.is_control for batch in whole)
        segment_bytes, retention_ms = seeded.choice([600, 1500, 6000, 1 << 20]), seeded.choice([0, 0, DAY_MS, 100_000 * DAY_MS])
        lag_ms = seeded.choice([0, 0, 0, DAY_MS])
        self._settings = {
            "cleanup.policy": "compact,delete" if is_cut else "compact",
            "segment.bytes": segment_bytes,
            "delete.retention.ms": retention_ms,
            "min.compaction.lag.ms": lag_ms,
            "file.delete.delay.ms": DAY_MS,
        }
        self._ours = CompactedLog(
            folder / "ours",
            filesystem=Unsynced(),
            cleanup_policy=frozenset({"compact", "delete"} if is_cut else {"compact"}),
            retention_ms=-1,
            file_delete_delay_ms=0,
            segment_bytes=segment_bytes,
            delete_retention_ms=retention_ms,
            min_compaction_lag_ms=lag_ms,
        )
        self._ours.disk.clock.advance(now_ms - START_MS)
        if is_cut:
            self._cut(whole[-1].last_offset)
        else:
            shutil.copytree(self._ours.disk.log_path, self._theirs)

    def _write(self, folder: Path, count: int) -> int:
        """Fill a log that is not compacted yet, so that there may be records without a key. Returns the time at its end."""
        seeded = self._random
        time_type = seeded.choice(["CreateTime", "CreateTime", "LogAppendTime"])
        disk = Disk(folder, filesystem=Unsynced(), segment_bytes=1 << 20, message_timestamp_type=time_type)
        logs = disk.manager()
        logs.start()
        log = logs.create(TP, TOPIC_ID, disk.config)
        for _ in range(count):
            disk.clock.advance(seeded.choice([0, 1, 1000, DAY_MS // 10]))
            chance = seeded.random()
            if chance < (0.04 if self._is_cut else 0.15):
                log.roll(disk.clock.time_ms())
            elif chance < 0.35 and self._open:
                self._end(log, seeded.choice(sorted(self._open)))
            else:
                append(log, self._batch(disk.clock.time_ms()))
        for producer_id in sorted(self._open) if seeded.random() < 0.7 else ():
            self._end(log, producer_id)
        log.roll(disk.clock.time_ms())
        self._bounds = [segment.base_offset for segment in log.segments][1:]
        append(log, self._batch(disk.clock.time_ms()))
        self._bounds.append(log.log_end_offset)
        logs.stop()
        return disk.clock.time_ms()

    def _batch(self, now_ms: int) -> bytearray:
        seeded = self._random
        size, value_bytes, has_all_keys = seeded.choice([1, 1, 2, 5, 40]), seeded.choice([3, 30, 200]), seeded.random() < 0.9
        records = []
        for n in range(size):
            key = seeded.choice(self._keys) if has_all_keys or seeded.random() < 0.5 else None
            value = None if key is not None and seeded.random() < 0.2 else seeded.randbytes(seeded.randrange(value_bytes))
            records.append(Record(Offset(n), now_ms - seeded.choice([0, 0, 5, DAY_MS, 3 * DAY_MS]), key, value))
        codec = seeded.choice(list(CompressionType))
        producer_id = seeded.choice([-1, -1, -1, 1, 2, 11, 12, 13])
        if producer_id < 0:
            return build_batch(records, compression=codec)
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + size
        is_transactional = producer_id > MAX_IDEMPOTENT
        if is_transactional:
            self._open.add(producer_id)
        return build_batch(
            records,
            compression=codec,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0),
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def _end(self, log: Log, producer_id: int) -> None:
        self._open.discard(producer_id)
        now_ms = log.services.clock.time_ms()
        kind = self._random.choice([ControlType.COMMIT, ControlType.ABORT])
        marker = build_transaction_marker(
            TransactionMarker(kind, CoordinatorEpoch(0)),
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=now_ms,
        )
        log.append_as_leader(memoryview(marker), leader_epoch=LeaderEpoch(0), now_ms=now_ms, origin=AppendOrigin.COORDINATOR)

    def _cut(self, high_watermark: int) -> None:
        """Let retention delete up to two thirds of the log, by size or by time, and let the cleaner give their space back.

        Kafka gets a copy. Its records differed only below the log start offset, where a transaction may keep its marker.
        """
        ours, draw = self._ours, self._cutting
        log, now_ms = ours.log, ours.disk.clock.time_ms()
        settings: dict[str, Any] = {"cleanup_policy": frozenset({"delete"})}
        if draw.random() < 0.5:
            settings["retention_bytes"] = int(log.size * draw.uniform(0.3, 0.9))
        else:
            batch = draw.choice(kept_in(ours.disk.log_path, log.log_start_offset))
            settings["retention_ms"] = max(now_ms - batch.max_timestamp, 0)
        before = log.segments[0].base_offset
        compacting, log.config = log.config, replace(log.config, **settings)
        delete_old_segments(log, now_ms, high_watermark=Offset(high_watermark))
        is_in_first = log.log_start_offset < log.segments[0].end_offset
        for _ in range(2):  # the first look flushes what is cut
            ours.clean()
        self.cuts += is_in_first and log.segments[0].base_offset > before
        log.config = compacting
        ours.restart(is_clean=True)
        shutil.rmtree(self._theirs, ignore_errors=True)
        shutil.copytree(ours.disk.log_path, self._theirs)

    def passes(self, kafka: KafkaCleaner) -> Iterator[Pass]:
        """Have both cleaners clean up to a high watermark that grows; tombstones may get old enough between the passes."""
        ours, ended = self._ours, 0
        steps = sorted(self._random.sample(self._bounds, min(len(self._bounds), self._random.choice([1, 3, 9, 20]))))
        for number, high_watermark in enumerate(steps):
            ours.disk.clock.advance(self._random.choice([0, 1, DAY_MS + 1, 5 * DAY_MS]))
            ours.restart(is_clean=True)
            ours.high_watermark = high_watermark
            ours.log.producers.on_high_watermark(Offset(high_watermark))
            if number and self._is_cut and self._cutting.random() < 0.5:
                self._cut(high_watermark)
            ours.clean()
            _, _, ended = kafka.clean(
                self._theirs,
                high_watermark=high_watermark,
                now_ms=ours.disk.clock.time_ms(),
                first_dirty_offset=ended,
                log_start_offset=ours.log.log_start_offset,
                settings=self._settings,
            )
            ours_ended = read_offsets(Filesystem(), f"{ours.disk.path}/{CLEANER_OFFSET_FILE}").get(TP, 0)
            start = ours.log.log_start_offset
            yield Pass(kept_in(ours.disk.log_path, start), kept_in(self._theirs, start), (max(ours_ended, start), ended))

    def close(self) -> None:
        """Close the files."""
        self._ours.logs.abandon()


def run(kafka: KafkaCleaner, seed: int, *, is_cut: bool) -> list[str]:
    """Run one case, and return what differs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        case = Case(seed, Path(folder), is_cut=is_cut)
        try:
            return [
                f"seed {seed}, pass {number}: {text}"
                for number, one in enumerate(case.passes(kafka), 1)
                for text in differences(one)
            ]
        finally:
            case.close()


def differences(one: Pass) -> Iterator[str]:
    """Describe what differs after a pass."""
    if one.ended[0] != one.ended[1]:
        yield f"ours came to {one.ended[0]}, Kafka's to {one.ended[1]}"
    ours, theirs = offsets_and_keys(one.ours), offsets_and_keys(one.theirs)
    if ours != theirs:
        yield f"only ours keeps {sorted(set(ours) - set(theirs))}, only Kafka's {sorted(set(theirs) - set(ours))}"
    elif one.ours != one.theirs:
        pairs = itertools.zip_longest(one.ours, one.theirs)
        yield "; ".join(f"{mine} where Kafka has {other}" for mine, other in pairs if mine != other)


def main() -> None:
    parser = argparse.ArgumentParser(prog="integration.conformance.cleaner_oracle", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--cut", action="store_true", help="let retention cut the head of each log")
    options = parser.parse_args()
    count = 0
    for first in range(options.seed, options.seed + options.cases, CASES_OF_A_JVM):
        kafka = KafkaCleaner()
        for seed in range(first, min(first + CASES_OF_A_JVM, options.seed + options.cases)):
            for text in run(kafka, seed, is_cut=options.cut):
                count += 1
                print(text, flush=True)
        kafka.close()
    print(f"{options.cases} cases, {count} differences")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
