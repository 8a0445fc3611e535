"""`flush.messages` over real sockets, on a disk that is slow or fails when the test wants it, and what a stop does about it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pybroker.broker import disks
from pybroker.broker.broker_server import BrokerServer
from pybroker.config.load import load
from pybroker.log.files.filesystem import Filesystem
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from testing.waiting import WAIT_S
from testing.wire import raw, raw_groups

T = TypeVar("T")
Start = Callable[..., Awaitable["Running"]]
CLEAN = ".kafka_cleanshutdown"


class SlowDisk(Filesystem):
    """A disk on which, after `hold`, fsyncs below the folders in `slow` wait for `released`, and then raise `error`, if any."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self.slow: str | None = None
        self.released, self.waits = threading.Event(), threading.Event()
        self.error: OSError | None = None

    def hold(self, folder: Path) -> None:
        self.slow = str(folder)

    def release(self, error: OSError | None = None) -> None:
        """Let the fsyncs continue; later ones do not wait."""
        self.slow, self.error = None, error
        self.released.set()

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        self._paths[fd] = path
        return fd

    def sync(self, fd: int) -> None:
        if self.slow is not None and self._paths.get(fd, "").startswith(self.slow):
            self.waits.set()
            assert self.released.wait(60)
            if self.error is not None:
                raise self.error
        super().sync(fd)


class Running:
    """A broker in this process."""

    def __init__(self, folder: Path, disk: SlowDisk, *names: str, **overrides: str) -> None:
        self.disk, self.folders = disk, [folder / name for name in names or ("data",)]
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, self.folders)),
            "offsets.topic.num.partitions": "1",
            **{name.replace("_", "."): value for name, value in overrides.items()},
        }
        self.broker = BrokerServer(load(overrides=settings).config, filesystem=disk)
        self.bootstrap = ""
        self._is_stopped = False

    async def start(self) -> Running:
        (bound,) = await self.broker.start()
        self.bootstrap = f"127.0.0.1:{bound.port}"
        return self

    async def stop(self) -> None:
        """Stop the broker once; later calls do nothing."""
        if not self._is_stopped:
            self._is_stopped = True
            await self.broker.stop()

    async def create(self, partitions: int = 1, **configs: str) -> None:
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        topic = NewTopic(name="t", partition_count=partitions, configs=dotted)
        (outcome,) = await self.broker.controller.create_topics([topic])
        assert outcome.error is None

    def ask(self, request: Callable[[raw.Connection], T]) -> asyncio.Task[T]:
        """Send a request on a connection of its own, and return while it is under way."""

        def call() -> T:
            with raw.Connection(self.bootstrap) as connection:
                return request(connection)

        return asyncio.create_task(asyncio.to_thread(call))

    async def until_the_disk_waits(self) -> None:
        assert await asyncio.to_thread(self.disk.waits.wait, 60)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    started: list[Running] = []

    async def one(*names: str, **overrides: str) -> Running:
        started.append(Running(tmp_path, SlowDisk(), *names, **overrides))
        return await started[-1].start()

    yield one
    for running in started:
        running.disk.release()
        await running.stop()


def produce(value: bytes, acks: int = -1, partition: int = 0, **producer: Any) -> Callable[[raw.Connection], raw.Produced]:
    data = bytes(build_batch([Record(Offset(0), 0, None, value)], **producer))
    return lambda connection: raw.produce(connection, 7, "t", data, acks=acks, partition=partition)


def end_and_size(connection: raw.Connection) -> tuple[int, int]:
    """Return the high watermark, and the number of bytes that a consumer gets from the start."""
    fetched = raw.fetch_one(connection, 11, raw.Ask(topic="t"))
    return fetched.high_watermark, len(fetched.records)


@pytest.mark.parametrize("acks", [1, -1])
async def test_no_client_gets_a_response_before_the_disk_has_the_records(start: Start, acks: int) -> None:
    running = await start()
    await running.create(flush_messages="1")
    assert (await running.ask(produce(b"first", acks))).error == 0
    before = await running.ask(end_and_size)
    running.disk.hold(running.folders[0] / "t-0")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    sent = running.ask(produce(b"second", acks, **producer))
    await running.until_the_disk_waits()
    again = running.ask(produce(b"second", acks, **producer))
    assert await running.ask(end_and_size) == before, "what a consumer sees"
    assert not sent.done()
    running.disk.release()
    assert (await sent).base_offset == (await again).base_offset == 1
    assert (await running.ask(end_and_size))[0] == 2, "written once"


async def test_an_fsync_that_fails_is_the_response(start: Start) -> None:
    running = await start()
    await running.create(flush_messages="1")
    running.disk.hold(running.folders[0] / "t-0")
    sent = running.ask(produce(b"lost"))
    await running.until_the_disk_waits()
    running.disk.release(OSError(errno.EIO, "bad sector"))
    assert (await sent).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await running.ask(produce(b"refused"))).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert running.broker.failed.is_set()
    await running.stop()
    assert not (running.folders[0] / CLEAN).exists()


async def test_a_commit_waits_for_the_disk(start: Start) -> None:
    running = await start(log_flush_interval_messages="1")
    await running.create()
    await asyncio.to_thread(raw_groups.find_coordinator, running.bootstrap, "g")

    def commit(offset: int) -> Callable[[raw.Connection], list[int]]:
        body = raw_groups.commit_body(raw_groups.Identity("g"), "t", {0: raw_groups.Committed(offset, "")})
        return lambda connection: raw_groups.parse_commit(raw_groups.call(connection, raw_groups.OFFSET_COMMIT, body))

    def committed(connection: raw.Connection) -> int:
        body = raw_groups.fetch_offsets_body("g", "t", [0])
        _, offsets = raw_groups.parse_fetch_offsets(raw_groups.call(connection, raw_groups.OFFSET_FETCH, body))
        return offsets[0].offset

    assert await running.ask(commit(1)) == [0]
    running.disk.hold(running.folders[0] / "__consumer_offsets-0")
    sent = running.ask(commit(2))
    await running.until_the_disk_waits()
    asked = running.ask(committed)
    assert (await running.ask(raw.api_versions))[0], "the broker responds to other requests meanwhile"
    assert not sent.done()
    assert not asked.done(), "no client gets an offset that could be lost"
    running.disk.release()
    assert await sent == [0]
    assert await asked == 2


async def test_a_stop_waits_for_fsyncs_that_are_under_way(start: Start) -> None:
    running = await start()
    await running.create(flush_messages="1")
    running.disk.hold(running.folders[0] / "t-0")
    sent = running.ask(produce(b"a"))
    await running.until_the_disk_waits()
    stop = asyncio.create_task(running.stop())
    await asyncio.wait_for(running.broker.stopping.wait(), WAIT_S)
    running.disk.release()
    assert (await sent).error == 0
    await stop
    assert (running.folders[0] / CLEAN).exists()


async def test_a_last_fsync_that_fails_leaves_no_marker_of_a_clean_stop(start: Start) -> None:
    """Let the fsyncs after the failed one succeed, as they do on Linux for the same file: what the failed one lost stays lost."""
    running = await start()
    await running.create()
    assert (await running.ask(produce(b"a"))).error == 0
    running.disk.hold(running.folders[0] / "t-0")
    for log in running.broker.log_manager.all_logs():
        log.flush()
    await running.until_the_disk_waits()
    stop = asyncio.create_task(running.stop())
    running.disk.release(OSError(errno.EIO, "bad sector"))
    await stop
    assert not (running.folders[0] / CLEAN).exists()


async def test_a_disk_that_hangs_keeps_no_other_disk_from_a_clean_stop(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "DISK_GRACE_S", 0.5)
    running = await start("sound", "hanging")
    await running.create(partitions=2)
    logs = {log.log_directory.path: log for log in running.broker.log_manager.all_logs()}
    assert set(logs) == set(map(str, running.folders))
    assert (await running.ask(produce(b"a"))).error == 0
    assert (await running.ask(produce(b"b", partition=1))).error == 0
    sound, hanging = running.folders
    running.disk.hold(hanging)
    logs[str(hanging)].flush()
    await running.until_the_disk_waits()
    await running.stop()
    assert running.broker.disks.has_hung
    assert (sound / CLEAN).exists()
    assert not (hanging / CLEAN).exists()
