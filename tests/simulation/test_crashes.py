"""A simulated disk, store and loop keep their promises about the moment after a crash, and about faults."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pybroker.clock import ManualClock
from pybroker.metadata.store.base import StoreError
from testing.simulation.broker import World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.faults import SHORT, Fault
from testing.simulation.loop import NothingToDoError, SimulatedDiskThread, SimulatedLoop
from testing.simulation.store import StoreContents

SEEDS = range(200)


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk(ManualClock(1000))
    made.make_directory("/d")
    made.sync_directory("/")
    return made


def after_crash(disk: SimulatedDisk, seed: int | None = None) -> SimulatedDisk:
    twin = disk.fork()
    twin.crash(None if seed is None else Random(seed))
    return twin


def content(disk: SimulatedDisk, path: str) -> bytes | None:
    return disk.read_file(path) if disk.exists(path) else None


def outcomes(disk: SimulatedDisk, *paths: str) -> set[tuple[bytes | None, ...]]:
    """Return everything that crashes leave of the files, over many seeds."""
    return {tuple(content(one, path) for path in paths) for one in (after_crash(disk, seed) for seed in SEEDS)}


def write(disk: SimulatedDisk, path: str, data: bytes) -> None:
    fd = disk.open(path, writable=True)
    disk.write_fully(fd, data, disk.size(fd))
    disk.close(fd)


def test_a_killed_process_leaves_everything_but_its_descriptors_and_locks(disk: SimulatedDisk) -> None:
    fd = disk.open("/d/a", writable=True, create=True)
    disk.pwrite(fd, b"one", 0)
    disk.lock("/d/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/d/.lock")
    disk.kill()
    assert content(disk, "/d/a") == b"one"
    disk.lock("/d/.lock")
    with pytest.raises(OSError, match="Bad file"):
        disk.pread(fd, 1, 0)


def test_a_name_is_durable_by_the_directory_and_bytes_by_the_file(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"one", sync=True)
    assert content(after_crash(disk), "/d/a") is None
    disk.write_file("/d/b", b"two", sync=False)
    disk.sync_directory("/d")
    assert content(after_crash(disk), "/d/a") == b"one"
    assert content(after_crash(disk), "/d/b") == b""
    disk.sync_path("/d/b")
    assert content(after_crash(disk), "/d/b") == b"two"


def test_a_directory_is_only_there_when_the_one_above_was_synced(disk: SimulatedDisk) -> None:
    disk.make_directory("/d/p")
    disk.write_file("/d/p/a", b"one", sync=True)
    disk.sync_directory("/d/p")
    assert not after_crash(disk).exists("/d/p")
    disk.sync_directory("/d")
    assert content(after_crash(disk), "/d/p/a") == b"one"


def test_any_part_of_unsynced_writes_may_be_there(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"old", sync=True)
    disk.sync_directory("/d")
    write(disk, "/d/a", b"1" * 600)
    write(disk, "/d/a", b"2" * 600)
    found = {one[0] for one in outcomes(disk, "/d/a")}
    assert {b"old", b"old" + b"1" * 600 + b"2" * 600, b"old" + b"1" * 600} <= found
    assert all(one is not None and one.startswith(b"old") for one in found)
    assert any(one is not None and b"\0" in one and one.endswith(b"2") for one in found), "the later without the earlier"
    assert len(found) > 20


def test_an_unsynced_cut_may_be_undone(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"12345", sync=True)
    disk.sync_directory("/d")
    fd = disk.open("/d/a", writable=True)
    disk.truncate(fd, 2)
    assert outcomes(disk, "/d/a") == {(b"12345",), (b"12",)}
    disk.sync(fd)
    assert outcomes(disk, "/d/a") == {(b"12",)}


def test_a_rename_before_its_bytes_are_durable_leaves_an_empty_file(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"old", sync=True)
    disk.sync_directory("/d")
    disk.replace_file("/d/a", b"new", sync=False)
    disk.sync_directory("/d")
    assert content(after_crash(disk), "/d/a") == b""
    disk.replace_file("/d/a", b"newest", sync=True)
    assert outcomes(disk, "/d/a") == {(b"newest",)}


def test_a_replaced_file_is_the_old_or_the_new_at_every_operation(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"old", sync=True)
    disk.sync_directory("/d")
    forks: list[SimulatedDisk] = []
    disk.on_operation = lambda _kind, _path: forks.append(disk.fork())
    disk.replace_file("/d/a", b"new", sync=True)
    assert len(forks) > 3
    assert {one for fork in forks for one in outcomes(fork, "/d/a")} == {(b"old",), (b"new",)}


def test_names_of_one_file_keep_their_order_and_others_do_not(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"A", sync=True)
    disk.write_file("/d/b", b"B", sync=True)
    disk.sync_directory("/d")
    disk.rename("/d/a", "/d/c")
    disk.rename("/d/c", "/d/e")
    disk.rename("/d/b", "/d/f")
    found = outcomes(disk, "/d/a", "/d/c", "/d/e", "/d/b", "/d/f")
    of_a = {(b"A", None, None), (None, b"A", None), (None, None, b"A")}
    of_b = {(b"B", None), (None, b"B")}
    assert found == {(*one, *other) for one in of_a for other in of_b}


def test_a_removed_file_may_come_back_and_with_it_what_it_had(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"A", sync=True)
    disk.sync_directory("/d")
    disk.remove("/d/a")
    disk.write_file("/d/a", b"new", sync=True)
    assert outcomes(disk, "/d/a") == {(b"A",), (None,), (b"new",)}


def test_the_same_seed_is_the_same_crash(disk: SimulatedDisk) -> None:
    for name in "abcdef":
        disk.write_file(f"/d/{name}", name.encode() * 3000, sync=False)

    def whole(one: SimulatedDisk) -> list[tuple[str, bytes]]:
        return [(entry.name, one.read_file(entry.path)) for entry in one.list("/d")]

    for seed in SEEDS:
        assert whole(after_crash(disk, seed)) == whole(after_crash(disk.fork(), seed))


def test_a_failed_fsync_drops_what_it_should_have_kept_and_the_next_one_succeeds(disk: SimulatedDisk) -> None:
    disk.write_file("/d/a", b"old", sync=True)
    disk.sync_directory("/d")
    write(disk, "/d/a", b"lost")
    disk.faults.append(Fault(errno.EIO, kinds={"sync"}))
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_path("/d/a")
    disk.sync_path("/d/a")
    assert content(disk, "/d/a") == b"oldlost"
    assert outcomes(disk, "/d/a") == {(b"old",)}


def test_faults_strike_where_and_as_often_as_they_must(disk: SimulatedDisk) -> None:
    disk.make_directory("/e")
    disk.faults.append(Fault(errno.EIO, kinds={"create"}, path="/e/*", skip=1, count=2))
    disk.create_empty("/d/a")
    disk.create_empty("/e/a")
    for name in "bc":
        with pytest.raises(OSError, match="/e/"):
            disk.create_empty(f"/e/{name}")
    disk.create_empty("/e/d")
    assert disk.faults[0].hits == ["create /e/b", "create /e/c"]
    disk.faults = [Fault(errno.EIO, path="/e*", count=None)]
    for call in (disk.list, disk.create_empty, disk.read_file, disk.exists):
        with pytest.raises(OSError, match="Input/output"):
            call("/e")


def test_a_short_write_is_continued_by_callers_that_look(disk: SimulatedDisk) -> None:
    disk.faults.append(Fault(SHORT, kinds={"write"}))
    disk.write_file("/d/a", b"12345678", sync=False)
    assert content(disk, "/d/a") == b"12345678"
    disk.faults.append(Fault(SHORT, kinds={"write"}))
    fd = disk.open("/d/a", writable=True)
    assert disk.pwrite(fd, b"12345678", 0) == 4


def test_a_full_disk_takes_what_fits(disk: SimulatedDisk) -> None:
    disk.limit("/d", 10)
    fd = disk.open("/d/a", writable=True, create=True)
    assert disk.pwrite(fd, b"x" * 8, 0) == 8
    assert disk.volume_space("/d") == (10, 2)
    assert disk.pwrite(fd, b"x" * 8, 8) == 2
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"x", 10)
    with pytest.raises(OSError, match="No space"):
        disk.create_empty("/d/b")
    assert disk.pwrite(fd, b"y" * 10, 0) == 10
    disk.truncate(fd, 4)
    assert disk.volume_space("/d") == (10, 6)
    disk.rename("/d/a", "/d/c")
    disk.remove("/d/c")
    assert disk.volume_space("/d") == (10, 10)


def test_descriptors_run_out(disk: SimulatedDisk) -> None:
    disk.descriptors_max = 2
    first = disk.open("/d/a", writable=True, create=True)
    disk.open("/d/a", writable=False)
    for call in (lambda: disk.open("/d/a", writable=False), lambda: disk.create_empty("/d/b"), lambda: disk.read_file("/d/a")):
        with pytest.raises(OSError, match="Too many open files"):
            call()
    assert not disk.exists("/d/b")
    disk.close(first)
    disk.create_empty("/d/b")


def test_a_device_that_is_away_leaves_its_mount_point(disk: SimulatedDisk) -> None:
    disk.make_directory("/d/m")
    disk.write_file("/d/m/a", b"kept", sync=False)
    disk.detach("/d/m")
    assert disk.list("/d/m") == []
    disk.write_file("/d/m/b", b"below", sync=False)
    twin = disk.fork()
    twin.crash()
    assert twin.away == ("/d/m",)
    for one in (disk, twin):
        one.attach("/d/m")
        assert [entry.name for entry in one.list("/d/m")] == ["a"]
        assert one.read_file("/d/m/a") == b"kept"


# --- the store ---


async def test_a_commit_is_there_as_a_whole_or_not_at_all() -> None:
    contents = StoreContents()
    forks: dict[str, StoreContents] = {}
    contents.on_operation = lambda kind, _keys: forks.update({kind: contents.fork()})
    store = contents.open()
    assert await store.commit(puts={"a": b"1", "b": b"2"}) == 1
    assert (await forks["commit"].open().list()).entries == ()
    assert await forks["committed"].open().list() == await store.list() == await contents.open().list()
    assert await store.commit(deletes=["a"]) == 2
    assert [entry.key for entry in (await contents.open().list()).entries] == ["b"]


async def test_a_failed_commit_leaves_nothing() -> None:
    contents = StoreContents()
    store = contents.open()
    contents.failures = 1
    with pytest.raises(StoreError):
        await store.commit(puts={"a": b"1"})
    assert (await store.list()).entries == (await contents.open().list()).entries == ()
    assert await store.commit(puts={"a": b"1"}) == 1


# --- the loop and its threads ---


def test_time_passes_when_there_is_nothing_else_to_do() -> None:
    clock = ManualClock(0)
    loop = SimulatedLoop(clock)
    seen: list[int] = []

    async def story() -> None:
        loop.call_later(5, lambda: seen.append(clock.time_ms()))
        await asyncio.sleep(60)

    loop.run(story())
    assert seen == [5_000]
    assert clock.time_ms() == 60_000
    with pytest.raises(NothingToDoError):
        loop.run(asyncio.Event().wait())
    loop.end()


def interleaved(seed: int) -> list[str]:
    """Return what a thread and the loop did, in order: a job of two operations, and three steps of the loop."""
    loop = SimulatedLoop(ManualClock(0), Random(seed), interleaving=0.5)
    done: list[str] = []

    def operation(name: str) -> Callable[[], None]:
        def work() -> None:
            loop.within_operation()
            done.append(name)

        return work

    def job() -> None:
        operation("t1")()
        operation("t2")()

    async def story() -> None:
        thread = SimulatedDiskThread("disk", lambda: None)
        thread.run(job, lambda error: done.append(f"heard {error}"))
        for number in range(3):
            done.append(f"l{number}")
            await asyncio.sleep(0)
        await thread.idle()

    loop.run(story())
    loop.end()
    return done


def test_a_threads_job_and_the_loop_come_in_any_order_of_their_own() -> None:
    stories = [interleaved(seed) for seed in range(100)]
    assert stories == [interleaved(seed) for seed in range(100)]
    assert all(sorted(story) == sorted(stories[0]) for story in stories)
    assert all(story.index("t1") < story.index("t2") < story.index("heard None") for story in stories)
    assert any(story.index("t1") < story.index("l1") < story.index("t2") for story in stories), "the loop within the job"
    assert any(story.index("t2") < story.index("l1") for story in stories)
    assert any(story.index("l2") < story.index("t1") for story in stories)


# --- the broker on all of them ---


def tree(disk: SimulatedDisk, path: str = "") -> dict[str, Any]:
    return {
        entry.name: tree(disk, entry.path) if entry.is_dir() else disk.read_file(entry.path) for entry in disk.list(path or "/")
    }


def test_a_broker_starts_stops_and_starts_the_same_way_each_time() -> None:
    def life() -> tuple[int, dict[str, Any]]:
        world = World(seed=7, interleaving=0.3)
        config = world.config(log_dirs=["/a", "/b"])
        for _ in range(2):
            with world.process(config) as process:
                process.run(process.broker.start())
                process.run(process.broker.controller.create_missing_topics(["t"]))
                process.run(asyncio.sleep(100))
                process.run(process.broker.stop())
        return world.disk.count, tree(world.disk)

    first = life()
    assert ".kafka_cleanshutdown" in first[1]["a"]
    assert first == life()
