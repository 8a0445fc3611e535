"""Every pass over the logs at a hundred times its usual size never holds the loop for long.

The way from one yield to the next is judged by CPU time and time blocked. A slice of the background is 2 ms, and at most one such
way more. On a quiet machine each takes below a millisecond. The limit is higher because a busy machine is slower.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.log.cleaner import rewrite
from pybroker.log.cleaner.chunks import THREAD_BYTES, sections_of
from pybroker.log.cleaner.key_offsets import KeyOffsets
from pybroker.log.cleaner.throttle import Throttle
from pybroker.log.cleaner.transactions import CleanedTransactions
from pybroker.log.cleaner.worker import CleanerWorker
from pybroker.log.log import Log
from pybroker.log.manager import room_pass
from pybroker.log.manager.manager import LogManager
from pybroker.log.producers.producer_entry import ProducerBatch
from pybroker.model import Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pybroker.records import kernels
from pybroker.records.batch import BatchView, Record
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.sharing.work import InThread, ThreadRunner, Work, run_inline
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.held_work import HeldWork, run_all
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, HeldThread, append, batch
from testing.simulation.disk import SimulatedDisk
from testing.turns import Turns, watched

PARTITIONS = 10_000
SEGMENTS = 1_000
PRODUCERS = 100_000
DAY_MS = 86_400_000


def in_memory() -> SimulatedDisk:
    made = SimulatedDisk(ManualClock(START_MS))
    made.make_directory("/d")
    return made


@pytest.fixture(scope="module")
def many() -> tuple[LogManager, HeldWork]:
    """Return a manager with very many empty logs in memory, whose passes proceed when a test wants it."""
    held = HeldWork()
    disk = Disk("/d", filesystem=in_memory())
    manager = disk.manager(run_work=held)
    manager.start()
    for number in range(PARTITIONS):
        log = manager.create(TopicPartition("t", number), TopicId(bytes(16)), disk.config)
        log.log_start_offset = Offset(number)
    return manager, held


PASSES: dict[str, Callable[[LogManager], None]] = {
    "checkpoint": lambda logs: logs.passes.checkpoint(),
    "start offsets": lambda logs: logs.passes.checkpoint_start_offsets(),
    "high watermarks": lambda logs: logs.passes.write_high_watermarks(lambda _: Offset(7)),
    "retention": lambda logs: logs.passes.clean_up(START_MS),
    "flushes, none due": lambda logs: logs.passes.flush_due(START_MS),
    "expiry of producers": lambda logs: logs.passes.remove_expired_producers(START_MS),
    "release of files": lambda logs: logs.passes.release_sealed(),
    "room": lambda logs: logs.passes.look_for_room(),
    "removals": lambda logs: logs.remove_due(START_MS),
}


@pytest.mark.judges_time
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_over_very_many_logs_gives_the_loop_back(many: tuple[LogManager, HeldWork], name: str) -> None:
    manager, held = many
    with watched() as turns:
        turns.run(PASSES[name], manager)
        assert bool(held.jobs) is (name != "room"), "a volume in memory has no reserves to keep"
        held.finish_watched(turns)
    assert turns.long_texts() == []


@pytest.mark.judges_time
def test_a_volume_that_becomes_full_is_reported_to_very_many_logs_in_slices(many: tuple[LogManager, HeldWork]) -> None:
    manager, held = many
    (directory,) = manager.directories
    log = manager.get(TopicPartition("t", PARTITIONS - 1))
    assert log is not None
    for is_full in (True, False):
        directory.room.is_full = is_full
        manager.passes.begin("room", room_pass.look(directory, lambda: list(manager.all_logs()), lambda: None))
        with watched() as turns:
            held.finish_watched(turns)
        assert turns.long_texts() == []
        assert directory.room.logs_refuse is is_full


def with_segments(held: HeldWork, granularity: str, thread: ThreadRunner = run_inline) -> tuple[LogManager, Log]:
    disk = Disk(
        "/d",
        filesystem=in_memory(),
        segment_bytes=200,
        file_delete_delay_ms=0,
        retention_ms=DAY_MS,
        retention_granularity=granularity,
    )
    manager = disk.manager(run_work=held, thread_of=lambda _: thread)
    manager.start()
    log = manager.create(TP, TOPIC_ID, disk.config)
    for _ in range(SEGMENTS):
        append(log, batch(size=100))
    return manager, log


@pytest.mark.judges_time
@pytest.mark.parametrize("granularity", ["record", "segment"])
def test_retention_of_very_many_segments_gives_the_loop_back(granularity: str) -> None:
    held, thread = HeldWork(), HeldThread()
    manager, log = with_segments(held, granularity, thread)
    assert len(log.segments) == SEGMENTS

    def work(turns: Turns) -> None:
        while held.jobs or thread.jobs:
            held.finish_watched(turns)
            thread.run_all()

    with watched() as turns:
        turns.run(manager.passes.clean_up, START_MS + 2 * DAY_MS)
        work(turns)
        turns.run(manager.remove_due, START_MS + 2 * DAY_MS)
        work(turns)
    assert len(log.segments) == 1
    assert turns.long_texts() == []
    manager.abandon()


def test_segments_deleted_by_others_in_the_middle_of_a_pass_are_passed_over() -> None:
    held = HeldWork()
    manager, log = with_segments(held, "segment")
    manager.passes.clean_up(START_MS + 2 * DAY_MS)
    while len(log.segments) > SEGMENTS - 5:
        assert held.proceed()
    log.delete_below_start(count_max=50)
    log.truncate_fully_and_start_at(Offset(10 * SEGMENTS))
    held.finish()
    assert (log.log_start_offset, len(log.segments)) == (10 * SEGMENTS, 1)
    assert not log.log_directory.is_offline
    manager.passes.clean_up(START_MS + 2 * DAY_MS)
    assert held.jobs, "the pass has ended"
    held.finish()
    manager.stop()


def test_a_partition_deleted_in_the_middle_of_a_checkpoint_leaves_the_others_right(tmp_path: Path) -> None:
    held = HeldWork()
    disk = Disk(tmp_path)
    manager = disk.manager(run_work=held)
    manager.start()
    tps = [TopicPartition("t", number) for number in range(200)]
    for tp in tps:
        append(manager.create(tp, TOPIC_ID, disk.config), batch(3))
    manager.passes.checkpoint_start_offsets()
    assert held.proceed(), "some logs have been looked at"
    for tp in (tps[0], tps[-1]):
        manager.delete(tp)
    late = manager.get(tps[-2])
    assert late is not None
    late.increment_log_start_offset(Offset(2), high_watermark=Offset(3))
    held.finish()
    manager.abandon()
    again = disk.manager()
    again.start()
    found = again.get(tps[-2])
    assert found is not None
    assert found.log_start_offset == 2
    assert again.get(tps[0]) is None
    again.stop()


def test_offsets_collected_before_a_newer_write_do_not_undo_it(tmp_path: Path) -> None:
    """A move or a deletion of segments may write the file while a pass collects: it began later, so it knows more."""
    held = HeldWork()
    disk = Disk(tmp_path)
    manager = disk.manager(run_work=held)
    manager.start()
    logs = [manager.create(TopicPartition("t", number), TOPIC_ID, disk.config) for number in range(200)]
    for log in logs:
        append(log, batch(3))
    manager.passes.checkpoint_start_offsets()
    assert held.proceed()
    logs[0].increment_log_start_offset(Offset(2), high_watermark=Offset(3))  # it was looked at before
    manager.passes.checkpoint()
    name, newer = held.jobs.pop()
    assert name.startswith("checkpoint")
    run_all(newer)
    held.finish()
    manager.abandon()
    again = disk.manager()
    again.start()
    found = again.get(TopicPartition("t", 0))
    assert found is not None
    assert found.log_start_offset == 2
    again.stop()


def producer_batch(number: int) -> ProducerBatch:
    offset = Offset(number)
    return ProducerBatch(ProducerId(number), ProducerEpoch(0), 0, offset, offset, START_MS, is_transactional=False)


@pytest.mark.judges_time
def test_a_segment_is_completed_quickly_however_many_producers_its_log_has() -> None:
    disk, thread = Disk("/d", filesystem=in_memory()), HeldThread()
    disk.directory.run_in_thread = thread
    log = disk.create()
    append(log, batch())
    for number in range(PRODUCERS):
        log.producers.update(producer_batch(number))
    with watched() as turns:
        turns.run(log.roll, START_MS)
        thread.run_all()
    assert turns.long_texts() == []
    assert log.producers.snapshots == {1}, "the flush has written it"
    with watched() as turns:
        work = log.producers.remove_expired(START_MS + 10 * DAY_MS)
        while turns.run(next, work, "over") is None:
            pass
    assert turns.long_texts() == []
    assert log.producers.producers == {}
    log.release()
    recovered = disk.open(was_clean=False, recovery_point=1)
    assert len(recovered.producers.producers) == PRODUCERS
    recovered.release()


def test_a_snapshot_has_the_state_at_its_offset_whatever_is_appended_while_it_is_written(tmp_path: Path) -> None:
    disk, thread = Disk(tmp_path), HeldThread()
    disk.directory.run_in_thread = thread
    log = disk.create()
    log.producers.update(producer_batch(7))
    append(log, batch())
    log.roll(START_MS)
    for number in (7, 8):
        log.producers.update(replace_sequence(producer_batch(number), 1))
    thread.run_all()
    assert log.producers.snapshots == {1}
    again = disk.open(was_clean=False, recovery_point=1)
    assert {entry.producer_id: entry.last_sequence for entry in again.producers.producers.values()} == {7: 0}
    again.release()
    log.release()


def replace_sequence(one: ProducerBatch, sequence: int) -> ProducerBatch:
    return one._replace(base_sequence=sequence)


@pytest.mark.judges_time
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.ZSTD])
def test_a_very_large_batch_is_cleaned_in_slices(tmp_path: Path, codec: CompressionType) -> None:
    setting = CompactedLog(tmp_path)
    count = 300_000 if kernels.IS_NATIVE else 30_000
    rows = [Record(Offset(number), START_MS, b"%d" % (number % 1000), b"v" * 10) for number in range(count)]
    batch = BatchView(memoryview(build_batch(rows, compression=codec)))
    keys, transactions = KeyOffsets(1 << 30), CleanedTransactions()
    worker = CleanerWorker(0, run_inline, Throttle(setting.clock, lambda: 1e12, lambda _, work: work()))
    work = itertools.chain(
        _added(keys, batch, worker),
        rewrite._kept_of(setting.log, [batch], keys, transactions, worker, START_MS),
    )
    with watched() as turns:
        while (wait := turns.run(next, work, "over")) != "over":
            if wait is not None:
                wait.add_done_callback(lambda _: None)  # work in a thread
    assert turns.long_texts() == []
    assert len(keys.offsets) == 1000


def _added(keys: KeyOffsets, batch: BatchView, worker: CleanerWorker) -> Work[None]:
    sections = yield from sections_of([batch], worker)
    yield from keys.add(batch, sections[0])


def test_a_short_batch_that_is_long_uncompressed_is_left_to_the_thread() -> None:
    rows = [Record(Offset(0), START_MS, b"k", bytes(2 << 20))]
    batch = BatchView(memoryview(build_batch(rows, compression=CompressionType.ZSTD)))
    assert batch.batch_length < THREAD_BYTES
    given: list[Callable[[], None]] = []
    worker = CleanerWorker(0, lambda work, _done: given.append(work), Throttle(ManualClock(0), lambda: 1e12, lambda _, __: None))
    step = next(sections_of([batch], worker))
    assert isinstance(step, InThread)
    step.add_done_callback(lambda _: None)
    assert len(given) == 1
