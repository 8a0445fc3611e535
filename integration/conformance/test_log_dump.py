"""Kafka's DumpLogSegments reads every file that our log writes and finds nothing wrong with it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.log.results import AppendOrigin
from pybroker.model import BrokerId, CoordinatorEpoch, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.process.kafka_tools import run_tool

START_MS = 1_700_000_000_000
TP = TopicPartition("dumped", 0)
DUMP = "kafka.tools.DumpLogSegments"


def dump(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = run_tool(DUMP, *arguments)
    problems = [line for line in done.stderr.splitlines() if line and "SLF4J" not in line and "log4j" not in line]
    assert done.returncode == 0, done.stdout + done.stderr
    assert problems == [], "mismatches go to the error output"
    assert "isvalid: false" not in done.stdout.lower()
    assert "Exception" not in done.stdout
    return done


def files(log: Log, suffix: str) -> str:
    found = sorted(str(path) for path in Path(log.path).glob(f"*{suffix}"))
    assert found
    return ",".join(found)


def records(count: int, first_ms: int) -> list[Record]:
    """Return records with nulls, empty fields, headers, and times that go up and down."""
    headers = (("trace", b"\x00\x01"), ("empty", b""), ("null", None))
    return [
        Record(
            Offset(i),
            first_ms + (i * 7) % 11,
            None if i % 3 == 0 else b"key-%d" % i,
            None if i % 4 == 1 else b"value " * (i % 9),
            headers if i % 2 else (),
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> LogManager:
    clock = ManualClock(START_MS)
    manager = LogManager(
        [str(tmp_path_factory.mktemp("data"))],
        cluster_id="dump",
        node_id=BrokerId(1),
        services=LogServices(clock=clock),
        config_of=lambda _: TopicConfig(),
    )
    manager.start()
    return manager


def fill(log: Log) -> None:
    """Append batches with every codec, of an idempotent and a transactional producer and of old clients, in several segments."""

    def append(data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, version: int | None = None) -> None:
        now_ms = START_MS + log.log_end_offset
        log.append_as_leader(
            memoryview(data),
            leader_epoch=LeaderEpoch(log.log_end_offset // 200),
            now_ms=now_ms,
            origin=origin,
            request_version=version,
        )

    sequence = 0
    for turn in range(12):
        for codec in CompressionType:
            append(build_batch(records(20, START_MS + log.log_end_offset), compression=codec))
            found = records(5, START_MS + log.log_end_offset)
            append(
                build_batch(
                    found,
                    compression=codec,
                    producer_id=ProducerId(4000),
                    producer_epoch=ProducerEpoch(2),
                    base_sequence=sequence,
                )
            )
            append(
                build_batch(
                    found,
                    producer_id=ProducerId(4001),
                    producer_epoch=ProducerEpoch(0),
                    base_sequence=sequence,
                    is_transactional=True,
                    compression=codec,
                )
            )
            sequence += 5
        append(bytearray(build_message_set(records(3, START_MS), magic=1)), version=2)
        append(bytearray(build_message_set(records(3, START_MS), magic=0, compression=CompressionType.GZIP)), version=0)
        marker = TransactionMarker(ControlType.ABORT if turn % 2 else ControlType.COMMIT, CoordinatorEpoch(7))
        append(
            build_transaction_marker(
                marker, producer_id=ProducerId(4001), producer_epoch=ProducerEpoch(0), timestamp_ms=START_MS + log.log_end_offset
            ),
            AppendOrigin.COORDINATOR,
        )


@pytest.fixture(scope="module", params=["CreateTime", "LogAppendTime"])
def log(request: pytest.FixtureRequest, manager: LogManager) -> Log:
    tp = TP._replace(topic=f"dumped-{request.param}")
    config = TopicConfig(segment_bytes=16_000, index_interval_bytes=500, message_timestamp_type=request.param)
    log = manager.create(tp, TopicId(bytes(range(1, 17))), config)
    fill(log)
    assert len(log.segments) > 3
    log.close()
    return log


def test_every_record_is_read_back(log: Log) -> None:
    out = dump("--deep-iteration", "--print-data-log", "--files", files(log, ".log")).stdout
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", out, re.MULTILINE)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) == log.log_end_offset
    assert set(re.findall(r"compresscodec: (\w+)", out)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert set(re.findall(r"producerId: (-?\d+)", out)) == {"-1", "4000", "4001"}
    assert set(re.findall(r" magic: (\d)", out)) == {"2"}
    assert "headerKeys: [trace,empty,null]" in out
    assert "endTxnMarker: ABORT" in out
    assert "endTxnMarker: COMMIT" in out
    kinds = set(re.findall(r"^\| offset: \d+ (\w+):", out, re.MULTILINE))
    assert kinds == ({"LogAppendTime"} if "LogAppendTime" in log.topic_partition.topic else {"CreateTime"})


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_indexes_agree_with_the_data(log: Log, suffix: str) -> None:
    dump("--verify-index-only", "--files", files(log, suffix))
    dump("--index-sanity-check", "--files", files(log, suffix))
    out = dump("--files", files(log, suffix)).stdout
    assert len(re.findall(r"offset: \d+", out)) > len(log.segments)


def test_the_producers_are_read_back(log: Log) -> None:
    out = dump("--files", files(log, ".snapshot")).stdout
    last = out.rsplit("Dumping ", 1)[1]
    found = {int(producer_id): line for producer_id, line in re.findall(r"producerId: (\d+) (.*)", last)}
    assert sorted(found) == [4000, 4001]
    for producer_id, entry in log.producers.producers.items():
        assert f"lastSequence: {entry.last_sequence} " in found[producer_id]
        assert f"lastOffset: {entry.batches[-1].last_offset} " in found[producer_id]
        assert f"coordinatorEpoch: {entry.coordinator_epoch} " in found[producer_id]


def test_the_aborted_transactions_are_read_back(log: Log) -> None:
    out = dump("--files", files(log, ".txnindex")).stdout
    found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", out)
    assert [tuple(map(int, one)) for one in found] == [
        tuple(entry) for segment in log.segments for entry in segment.transaction_index.entries
    ]
    assert len(found) == 6


def test_a_segment_that_retention_has_cut_is_read_back(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    config = TopicConfig(retention_ms=10_000)
    logs = LogManager(
        [str(tmp_path)], cluster_id="dump", node_id=BrokerId(1), services=LogServices(clock=clock), config_of=lambda _: config
    )
    logs.start()
    log = logs.create(TP, TopicId(bytes(range(1, 17))), config)
    for second in range(100):
        data = build_batch([Record(Offset(0), START_MS + second * 1000, b"key", b"value" * 100)])
        log.append_as_leader(memoryview(data), leader_epoch=LeaderEpoch(0), now_ms=START_MS)
    turns: list[Callable[[], None]] = []
    cleaner = LogCleaner(logs, config=BrokerConfig, high_watermark=lambda _: 100, later=lambda _, work: turns.append(work))
    logs.passes.clean_up(START_MS + 90_000)
    for _ in range(4):
        cleaner.look()
        while turns and turns != [cleaner.look]:
            turns.pop(0)()
        turns.clear()
    log.close()
    out = dump("--deep-iteration", "--files", files(log, ".log")).stdout
    assert [int(found) for found in re.findall(r"^\| offset: (\d+) ", out, re.MULTILINE)] == list(range(80, 100))
    for suffix in (".index", ".timeindex"):
        dump("--verify-index-only", "--files", files(log, suffix))
