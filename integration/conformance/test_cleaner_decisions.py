"""Apache Kafka's LogCleanerManager and ours find the same to clean in a log, and the same to be due."""

from __future__ import annotations

import dataclasses
import random
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from integration.conformance.cleaner_oracle import Unsynced
from pybroker.config.topic import TopicConfig
from pybroker.log.cleaner.cleanable import cleanable
from pybroker.log.log import Log
from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.scenes.logs import TOPIC_ID, TP, Disk, append
from testing.waiting import line_of

PROGRAM = JAVA_SOURCES / "KafkaCleanable.java"
EXIT_TIMEOUT_S = 30
MINUTE_MS = 60_000
QUESTIONS = 1500


class Question(NamedTuple):
    """A state of the cleaner and the settings of the topic."""

    high_watermark: int
    now_ms: int
    first_dirty_offset: int
    ratio: float
    min_lag_ms: int
    max_lag_ms: int


Response = tuple[int, int, int, int, int, bool]


def write(folder: Path) -> Log:
    """Write a log of many segments; some timestamps are old, missing, or of the future, and a transaction is open at the end."""
    draw = random.Random(3)
    disk = Disk(folder, filesystem=Unsynced(), segment_bytes=1 << 20)
    logs = disk.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    for number in range(160):
        disk.clock.advance(draw.choice([0, 1, MINUTE_MS, 10 * MINUTE_MS]))
        now_ms = disk.clock.time_ms()
        at_ms = draw.choice([now_ms, now_ms, now_ms - 30 * MINUTE_MS, now_ms + 20 * MINUTE_MS, -1])
        records = [
            Record(Offset(n), at_ms, b"k%d" % n, draw.randbytes(draw.randrange(300))) for n in range(draw.choice([1, 1, 5]))
        ]
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True} if number == 120 else {}
        append(log, build_batch(records, **options))  # type: ignore[arg-type]
        if draw.random() < 0.25:
            log.roll(now_ms)
    log.flush()
    return log


def questions(log: Log) -> list[Question]:
    draw, end_ms = random.Random(4), log.services.clock.time_ms()
    bases = [segment.base_offset for segment in log.segments]
    lags = [1, MINUTE_MS, 30 * MINUTE_MS, 24 * 60 * MINUTE_MS]
    return [
        Question(
            draw.choice([log.log_end_offset, draw.randrange(log.log_end_offset + 1)]),
            end_ms - draw.randrange(-600, 600) * MINUTE_MS,
            draw.choice(bases),
            draw.choice([0.0, 0.01, 0.5, 0.9, 1.0]),
            draw.choice([0, 0, *lags]),
            draw.choice([(1 << 63) - 1, *lags]),
        )
        for _ in range(QUESTIONS)
    ]


def ours(log: Log, config: TopicConfig, one: Question) -> Response:
    log.config = dataclasses.replace(
        config,
        cleanup_policy=frozenset({"compact"}),
        min_cleanable_dirty_ratio=one.ratio,
        min_compaction_lag_ms=one.min_lag_ms,
        max_compaction_lag_ms=one.max_lag_ms,
    )
    found = cleanable(log, Offset(one.first_dirty_offset), high_watermark=Offset(one.high_watermark), now_ms=one.now_ms)
    return (
        found.first_dirty_offset,
        found.first_uncleanable_offset,
        found.clean_bytes,
        found.cleanable_bytes,
        found.delay_ms,
        found.is_due,
    )


def kafkas(process: subprocess.Popen[str], one: Question) -> Response:
    assert process.stdin is not None
    assert process.stdout is not None
    settings = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": one.ratio,
        "min.compaction.lag.ms": one.min_lag_ms,
        "max.compaction.lag.ms": one.max_lag_ms,
    }
    words = [one.high_watermark, one.now_ms, one.first_dirty_offset, *(f"{name}={value}" for name, value in settings.items())]
    process.stdin.write("\t".join(map(str, words)) + "\n")
    process.stdin.flush()
    line = line_of(process.stdout, "Kafka's cleaner manager")
    if not line:
        raise RuntimeError(f"Kafka's cleaner manager ended: {process.communicate(timeout=EXIT_TIMEOUT_S)[1]}")
    *numbers, is_due = line.split()
    first_dirty, uncleanable, clean, dirty, delay = map(int, numbers)
    return first_dirty, uncleanable, clean, dirty, delay, is_due == "true"


def test_what_is_cleanable_and_due_is_what_it_is_in_kafka(tmp_path: Path) -> None:
    log = write(tmp_path / "ours")
    theirs = tmp_path / "theirs" / str(TP)
    for segment in log.segments:
        segment.write_last_timestamp()
    shutil.copytree(Path(log.path), theirs)
    config, different, due, overdue = log.config, [], 0, 0
    with subprocess.Popen(
        [*quick_java(classpath("3.9.2"), PROGRAM), "-Xmx256m", PROGRAM.stem, str(theirs)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        for one in questions(log):
            mine, other = ours(log, config, one), kafkas(process, one)
            due += mine[-1]
            overdue += mine[-1] and mine[3] <= one.ratio * (mine[2] + mine[3])
            if mine != other:
                different.append((one, mine, other))
        process.communicate(timeout=EXIT_TIMEOUT_S)
    assert not different, f"{len(different)} of {QUESTIONS}, first {different[0]}"
    assert QUESTIONS / 10 < due < QUESTIONS * 9 / 10
    assert overdue > QUESTIONS / 50, "max.compaction.lag.ms decides some"
