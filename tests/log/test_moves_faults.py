"""A log that moves to another directory or is deleted is whole in a directory, whatever fails or ends meanwhile."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable

import pytest

from pybroker.clock import ManualClock
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.directory_moves import DirectoryMoves
from pybroker.log.manager.manager import LogManager
from pybroker.model import BrokerId, Offset, TopicId
from pybroker.protocol.error_codes import KafkaError
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch, read_batches
from testing.simulation.disk import SimulatedDisk
from testing.simulation.faults import Fault
from testing.simulation.subsets import crashed

OTHER_TOPIC_ID = TopicId(bytes(range(1, 17)))


class TwoDirectories:
    """A log with ten batches in /a, all durable, and an empty /b."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        clock = ManualClock(START_MS)
        self.disk = SimulatedDisk(clock) if disk is None else disk
        self.config = Disk("/a", segment_bytes=600).config
        self.logs = LogManager(
            ["/a", "/b"],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=clock),
            config_of=lambda _: self.config,
            filesystem=self.disk,
        )
        self.logs.start(lambda tp: TOPIC_ID if tp == TP else None)
        self.turns: list[Callable[[], None]] = []
        self.moves = DirectoryMoves(self.logs, later=self.turns.append, on_moved=lambda _, __: None)

    def fill(self) -> None:
        log = self.logs.create(TP, TOPIC_ID, self.config)
        for _ in range(10):
            append(log, batch(2, size=60))
        log.increment_log_start_offset(Offset(3), high_watermark=Offset(20))
        log.flush()
        self.logs.passes.checkpoint()
        self.disk.sync_all()

    def move(self) -> None:
        self.moves.start(TP, self.logs.directories[1])
        for _ in range(200):
            if self.turns:
                self.turns.pop(0)()
        assert not self.turns

    @property
    def log(self) -> Log:
        log = self.logs.get(TP)
        assert log is not None
        return log

    def restarted(self) -> TwoDirectories:
        self.disk.faults.clear()
        twin = self.disk.fork()
        return TwoDirectories(twin)


def new() -> TwoDirectories:
    setting = TwoDirectories()
    setting.fill()
    return setting


def holds_all(log: Log, end: int = 20) -> None:
    assert (log.log_start_offset, log.log_end_offset) == (3, end)
    assert [one.base_offset for one in read_batches(log)] == list(range(2, end, 2))


@pytest.mark.parametrize("is_dead", [False, True])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failure_in_the_target_leaves_the_log_where_it_is(code: int, *, is_dead: bool) -> None:
    outcomes = set()
    for n in itertools.count():
        setting = new()
        fault = Fault(code, path="/b*", skip=n, count=None if is_dead else 1)
        setting.disk.faults.append(fault)
        try:
            setting.move()
        except KafkaError:
            assert setting.moves.future(TP) is None
        if not fault.hits:
            break
        source, target = setting.logs.directories
        assert not source.is_offline, fault.hits
        outcomes.add((target.is_offline, setting.log.log_directory is target))
        if not setting.log.log_directory.is_offline:
            holds_all(setting.log)
            append(setting.log, batch(2, size=60))
        end = setting.log.log_end_offset
        again = setting.restarted()
        holds_all(again.log, end)
        names = [one.name for path in ("/a", "/b") for one in again.disk.list(path) if one.name.startswith("events-3")]
        assert names.count("events-3") == 1, fault.hits
    assert n > 30
    assert (True, False) in outcomes


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_without_descriptors_the_log_is_used_on_and_no_directory_goes_offline(code: int) -> None:
    for n in itertools.count():
        setting = new()
        fault = Fault(code, skip=n)
        setting.disk.faults.append(fault)
        try:
            setting.move()
        except KafkaError:
            assert setting.moves.future(TP) is None
        if not fault.hits:
            break
        assert not any(one.is_offline for one in setting.logs.directories), fault.hits
        holds_all(setting.log)
        append(setting.log, batch(2, size=60))
        setting.move()  # tried again, unless it has moved
        holds_all(setting.log, 22)
        assert setting.log.log_directory.path == "/b"
        holds_all(setting.restarted().log, 22)


def test_a_failure_in_the_source_loses_nothing() -> None:
    for n in itertools.count():
        setting = new()
        fault = Fault(errno.EIO, path="/a*", skip=n, count=None)
        setting.disk.faults.append(fault)
        setting.move()
        if not fault.hits:
            break
        assert not setting.logs.directories[1].is_offline, fault.hits
        if setting.log.log_directory.path == "/b":
            append(setting.log, batch(2, size=60))
        holds_all(setting.restarted().log, setting.log.log_end_offset)


def test_a_loss_of_power_leaves_one_whole_log() -> None:
    setting = new()
    found: list[SimulatedDisk] = []

    def look(kind: str, _: str) -> None:
        if kind == "sync_directory":
            found.append(setting.disk.fork())

    setting.disk.on_operation = look
    setting.move()
    setting.disk.on_operation = None
    assert setting.log.log_directory.path == "/b"
    places = set()
    for number, moment in enumerate([*found, setting.disk.fork()]):
        for after in crashed(moment, number):
            log = TwoDirectories(after).log
            holds_all(log)
            places.add(log.log_directory.path)
    assert places == {"/a", "/b"}


def test_a_name_that_cannot_be_freed_is_freed_before_it_is_used_again() -> None:
    setting = new()
    fault = Fault(errno.ENOMEM, kinds={"rename"}, path="/a/events-3 ->*")
    setting.disk.faults.append(fault)
    with pytest.raises(KafkaError):
        setting.logs.delete(TP)
    assert fault.hits
    assert setting.disk.exists("/a/events-3")
    log = setting.logs.create(TP, OTHER_TOPIC_ID, setting.config)
    assert (log.log_end_offset, log.size) == (0, 0)
    assert len([one for one in setting.disk.list(log.path) if one.name.endswith(".log")]) == 1, "nothing of the older topic"


def test_a_broken_disk_keeps_a_deleted_log_as_a_stray() -> None:
    setting = new()
    setting.disk.faults.append(Fault(errno.EIO, kinds={"rename"}, path="/a/events-3 ->*"))
    with pytest.raises(KafkaError):
        setting.logs.delete(TP)
    assert setting.logs.directories[0].is_offline
    assert setting.logs.get(TP) is None
    assert setting.disk.exists("/a/events-3/00000000000000000000.log")


@pytest.mark.parametrize(("code", "is_offline"), [(errno.EACCES, False), (errno.EIO, True)])
def test_what_cannot_be_removed_is_removed_by_the_next_start(code: int, *, is_offline: bool) -> None:
    setting = new()
    setting.logs.delete(TP)
    setting.disk.faults.append(Fault(code, kinds={"unlink", "rmdir"}))
    setting.logs.remove_due(START_MS + 10**9)
    assert setting.logs.directories[0].is_offline is is_offline
    assert any(one.name.endswith("-delete") for one in setting.disk.list("/a"))
    again = setting.restarted()
    again.logs.remove_due(START_MS + 10**9)
    assert not any(one.name.endswith("-delete") for one in again.disk.list("/a"))
