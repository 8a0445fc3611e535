"""Measures what an append and a read of the log cost in this process, per batch of 16 kB, without sockets.

    python -m benchmarks.append_read [directory]

The benchmark writes everything below the directory (default: /dev/shm, else the temporary one) and removes it again. It touches
memory once before it measures anything, because the first touch of fresh memory costs several times the write. `write` is the
bare system call on new pages of a file, to compare with: on a busy machine look at the ratios.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import build
from pybroker.clock import SystemClock
from pybroker.config.topic import TopicConfig
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pybroker.protocol.parts import SendPart
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch

COUNT = 8_000
READS = 20_000
RECORDS, VALUE_BYTES = 16, 1_000
ROUNDS = 3


def best_us(work: Callable[[], int]) -> float:
    """Return the CPU microseconds of this thread per operation, in the best of `ROUNDS` rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        count = work()
        best = min(best, (time.thread_time() - started) / count * 1e6)
    return best


def full_batch(now_ms: int, producer_id: int, sequence: int) -> memoryview:
    records = [Record(Offset(i), now_ms + i, b"key", bytes(VALUE_BYTES)) for i in range(RECORDS)]
    epoch = 0 if producer_id >= 0 else -1
    return memoryview(
        build_batch(records, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(epoch), base_sequence=sequence)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
    parser.add_argument("directory", nargs="?", default=default, help="where the benchmark writes (default: %(default)s)")
    directory = parser.parse_args().directory
    build.announce()
    path = tempfile.mkdtemp(dir=directory)
    try:
        run(path)
    finally:
        shutil.rmtree(path)


def run(path: str) -> None:
    warm = Path(path) / "warm"
    size = len(full_batch(0, -1, -1))
    warm.write_bytes(bytes(COUNT * size * 2))
    fd = os.open(warm, os.O_RDWR)
    os.ftruncate(fd, 0)
    one = bytes(size)
    print(f"batch of {size} bytes, {RECORDS} records; microseconds of CPU each, best of {ROUNDS}")

    def write() -> int:
        os.ftruncate(fd, 0)
        for i in range(COUNT):
            os.pwrite(fd, one, i * size)
        return COUNT

    print(f"write                 {best_us(write):7.1f}")
    os.close(fd)
    manager = LogManager(
        [f"{path}/logs"],
        cluster_id="benchmark",
        node_id=BrokerId(1),
        services=LogServices(clock=SystemClock()),
        config_of=lambda _: TopicConfig(),
    )
    manager.start()
    topic_id = TopicId(bytes(15) + b"\1")
    started = time.perf_counter()
    for partition in range(250):
        manager.create(TopicPartition("many", partition), topic_id, TopicConfig())
    print(f"creating a partition  {(time.perf_counter() - started) / 250 * 1e6:7.1f}   (elapsed)")
    warm.unlink()
    for name, producer_id in (("append", -1), ("append, idempotent", 7)):
        log = manager.create(TopicPartition(name.replace(", ", "-"), 0), topic_id, TopicConfig())
        print(f"{name:20}  {min(append(log, one) for one in prepared(producer_id)):7.1f}")
        log.flush()
    reads(log)
    manager.abandon()


def prepared(producer_id: int) -> Iterator[list[memoryview]]:
    now_ms = int(time.time() * 1000)
    count = COUNT // ROUNDS
    for turn in range(ROUNDS):
        sequences = range(turn * count, (turn + 1) * count)
        yield [full_batch(now_ms, producer_id, i * RECORDS if producer_id >= 0 else -1) for i in sequences]


def append(log: Log, buffers: list[memoryview]) -> float:
    """Append the batches, and return the CPU microseconds for each."""
    now_ms = int(time.time() * 1000)
    started = time.thread_time()
    for one in buffers:
        log.append_as_leader(one, leader_epoch=LeaderEpoch(0), now_ms=now_ms)
    return (time.thread_time() - started) / len(buffers) * 1e6


def reads(log: Log) -> None:
    end = log.log_end_offset
    offsets = [random.randrange(end) for _ in range(READS)]

    def anywhere() -> int:
        for offset in offsets:
            log.read(Offset(offset), bytes_max=1 << 20, upper_offset=end, min_one_batch=True)
        return READS

    def at_the_end() -> int:
        for _ in range(READS):
            log.read(end - RECORDS, bytes_max=1 << 20, upper_offset=end, min_one_batch=True)
        return READS

    def at_the_end_with_bytes() -> int:
        for _ in range(READS):
            fetched = log.read(end - RECORDS, bytes_max=1 << 20, upper_offset=end, min_one_batch=True)
            assert isinstance(fetched.records, SendPart)
            fetched.records.cold()
            fetched.records.pull(1 << 20)
        return READS

    def from_start_to_end() -> int:
        offset = count = 0
        while offset < end:
            fetched = log.read(Offset(offset), bytes_max=1 << 20, upper_offset=end, min_one_batch=True)
            assert isinstance(fetched.records, SendPart)
            for piece in fetched.records.pull(1 << 20):
                for found in batches(piece):
                    offset = found.next_offset
            count += 1
        return count

    print(f"read, last batch      {best_us(at_the_end):7.1f}")
    print(f"  with its bytes      {best_us(at_the_end_with_bytes):7.1f}")
    print(f"read, any offset      {best_us(anywhere):7.1f}")
    print(f"1 MB, as a consumer   {best_us(from_start_to_end):7.1f}   (with its walk over the batches)")


if __name__ == "__main__":
    main()
