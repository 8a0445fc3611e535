"""A disk that fails, or loses power, at any step of a cut: no record that stays is lost, and a later pass finishes the work."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from functools import lru_cache

import pytest

from pybroker.clock import ManualClock
from pybroker.protocol.error_codes import KafkaError
from testing.scenes.cut_log import CutLog
from testing.scenes.logs import START_MS, append, batch
from testing.simulation.disk import SimulatedDisk
from testing.simulation.faults import KINDS, SHORT, Fault
from testing.simulation.subsets import crashed

BATCHES = 25
END = 3 * BATCHES
CUT_MS = START_MS + 90_000
START = 60
"""The first record that is young enough then."""
STEPS_MIN = 60
"""A cut takes at least this many operations."""


def on(simulated: SimulatedDisk) -> CutLog:
    """Start a broker's logs on a disk."""
    return CutLog("/a", filesystem=simulated)


@lru_cache
def prepared() -> SimulatedDisk:
    """Return a disk whose records are all durable, as is where they begin: nothing is deleted yet."""
    scene = on(SimulatedDisk(ManualClock(START_MS)))
    scene.fill(count=BATCHES, size=500)
    scene.logs.stop()
    simulated(scene).sync_all()
    return simulated(scene)


def filled() -> CutLog:
    return on(prepared().fork())


def simulated(scene: CutLog) -> SimulatedDisk:
    found = scene.disk.filesystem
    assert isinstance(found, SimulatedDisk)
    return found


def is_whole(scene: CutLog) -> None:
    """Assert that every record that stays is there, and that what came back is without a gap."""
    start = scene.log.log_start_offset
    assert start in {0, START}
    assert scene.visible() == list(range(start, END))
    assert all(lost.first_offset >= END for lost in scene.log.lost), "only an empty segment, of which an index came back"


def is_finished(scene: CutLog, end: int = END) -> None:
    """Let retention and the cleaner work again, and assert that nothing is left to do."""
    scene.cut(CUT_MS)
    assert scene.visible() == list(range(START, end))
    assert scene.log.segments[0].base_offset == START
    assert not [name for name in scene.names() if not name.startswith((f"{START:020}.", f"{END:020}."))], scene.names()
    assert scene.log.replacement is None


def restarted(scene: CutLog) -> CutLog:
    disk = simulated(scene)
    disk.faults.clear()
    return on(disk.fork())


def each_failure(code: int, kinds: frozenset[str] = KINDS, *, is_dead: bool = False) -> Iterator[tuple[CutLog, Fault]]:
    """Yield the log after a cut whose n-th operation of these kinds failed, for every n."""
    for n in itertools.count():
        scene = filled()
        fault = Fault(code, kinds=kinds, skip=n, count=None if is_dead else 1)
        simulated(scene).faults.append(fault)
        scene.cut(CUT_MS)
        if not fault.hits:
            assert n >= (STEPS_MIN if kinds is KINDS else 1), f"only {n} operations"
            assert scene.log.segments[0].base_offset == START
            return
        yield scene, fault


@pytest.mark.parametrize(("code", "is_dead"), [(errno.EIO, False), (errno.EIO, True), (errno.ENOSPC, False)])
def test_a_failure_loses_nothing_and_the_next_start_finishes_the_cut(code: int, *, is_dead: bool) -> None:
    seen = set()
    for scene, fault in each_failure(code, is_dead=is_dead):
        offline = scene.log.log_directory.is_offline
        if not offline:
            is_whole(scene)
        again = restarted(scene)
        is_whole(again)
        is_finished(again)
        seen.add((fault.hits[0].split()[0], offline))
    kinds = {kind for kind, _ in seen}
    assert kinds >= {"create", "write", "sync", "sync_directory", "rename", "unlink"}
    assert ("rename", True) in seen
    if code == errno.EIO:
        assert {kind for kind, offline in seen if not offline} <= {"stat", "utime"}, "only what the disk can do without"


def test_a_copy_without_room_leaves_the_directory_online_and_is_made_later() -> None:
    count = 0
    for scene, fault in each_failure(errno.ENOSPC, frozenset({"write", "create"})):
        if ".cleaned" in fault.hits[0]:
            assert not scene.log.log_directory.is_offline, fault.hits
            assert append(scene.log, batch(3, size=100, timestamp=START_MS + 100_000)) == END
            is_finished(scene, END + 3)
            count += 1
    assert count > 1, "the copy is made and written"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, SHORT])
def test_a_shortage_passes_and_the_cut_is_finished(code: int) -> None:
    kinds = frozenset({"write"}) if code == SHORT else frozenset({"open", "create", "rename", "list", "sync_directory"})
    for scene, fault in each_failure(code, kinds):
        assert not scene.log.log_directory.is_offline, fault.hits
        is_whole(scene)
        try:
            is_finished(scene)
        except KafkaError as error:
            raise AssertionError(fault.hits) from error


def test_a_loss_of_power_at_any_step_loses_nothing() -> None:
    scene = filled()
    disk, found = simulated(scene), []

    def look(kind: str, _: str) -> None:
        if kind == "sync_directory":
            found.append(disk.fork())

    disk.on_operation = look
    scene.cut(CUT_MS)
    disk.on_operation = None
    bases = set()
    for number, moment in enumerate([*found, disk.fork()]):
        for after in crashed(moment, number):
            again = on(after)
            is_whole(again)
            bases.add(again.log.segments[0].base_offset)
        is_finished(again)
    assert bases == {0, START}
