"""Several log directories: one that is missing, broken, away, forgotten or back, and two copies of one partition."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pybroker.clock import ManualClock
from pybroker.config.topic import TopicConfig
from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import StoredOffset, read_stored
from pybroker.log.directories.claims import InconsistentDirectoryError, KnownDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.log.recovery import recovery
from pybroker.log.results import LastRun
from pybroker.model import BrokerId, Offset, TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from testing.scenes.logs import START_MS, TOPIC_ID, append, batch

TPS = [TopicPartition("orders", number) for number in range(4)]
NEW_ID = TopicId(b"a later topic id")


class Fails(Filesystem):
    """A file system on which every operation on a path with `fails(path)` fails with EIO."""

    __slots__ = ("fails",)

    def __init__(self) -> None:
        self.fails: Callable[[str], bool] = lambda _: False

    def _look(self, path: str) -> None:
        if self.fails(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def list(self, path: str) -> list[os.DirEntry[str]]:
        self._look(path)
        return super().list(path)

    def file_size(self, path: str) -> int:
        self._look(path)
        return super().file_size(path)


class Broker:
    """Starts on two directories, with what the metadata store would keep."""

    def __init__(self, folder: Path, names: str = "ab") -> None:
        self.folder = folder
        self.names = names
        self.topics: Mapping[str, tuple[TopicId, int]] = {"orders": (TOPIC_ID, len(TPS))}
        self.known: list[KnownDirectory] = []
        self.filesystem = Fails()
        self.came_back: set[str] = set()

    def path(self, name: str) -> Path:
        return self.folder / name

    def topic_id_of(self, tp: TopicPartition) -> TopicId | None:
        topic_id, count = self.topics.get(tp.topic, (None, 0))
        return topic_id if tp.partition < count else None

    def manager(self) -> LogManager:
        return LogManager(
            [str(self.path(name)) for name in self.names],
            cluster_id="a-cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=ManualClock(START_MS)),
            config_of=lambda _: TopicConfig(),
            filesystem=self.filesystem,
        )

    def start(self) -> LogManager:
        """Claim the directories, store what is known, and start the logs, as the broker does."""
        logs = self.manager()
        claims = logs.claim(self.known)
        self.known = list(claims.known.values())
        self.came_back = claims.came_back
        logs.start(self.topic_id_of)
        self.known = claims.settled()
        return logs

    def spans(self, logs: LogManager) -> dict[int, int | None]:
        """Return the end offset of each partition, None for an offline partition."""
        found: dict[int, int | None] = {}
        for topic, (topic_id, count) in self.topics.items():
            for number in range(count):
                try:
                    log = logs.create(TopicPartition(topic, number), topic_id, TopicConfig(), is_new=False)
                except KafkaError as error:
                    if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                        raise
                    found[number] = None
                else:
                    found[number] = log.log_end_offset
        return found

    def forget(self, name: str) -> None:
        path = str(self.path(name))
        self.known = [
            KnownDirectory(directory_id=one.directory_id, path=one.path, is_away=True, is_forgotten=True)
            if one.path == path
            else one
            for one in self.known
        ]

    def filled(self) -> Broker:
        """Fill four partitions with 100 records each, two in each directory."""
        logs = self.start()
        for tp in TPS:
            append(logs.create(tp, TOPIC_ID, TopicConfig()), batch(100, size=5))
        logs.stop()
        assert [len(list(self.path(name).glob("orders-*"))) for name in self.names] == [2, 2]
        return self

    def number_in(self, name: str) -> int:
        return min(int(one.name.rpartition("-")[2]) for one in self.path(name).glob("orders-?"))


def strays(folder: Path) -> list[str]:
    return sorted(one.name.partition(".")[0] for one in folder.rglob("*-stray"))


# --- a directory that is not there ---


def unmounted(path: Path) -> None:
    path.rename(path.with_name(path.name + ".unmounted"))


def empty_mount_point(path: Path) -> None:
    unmounted(path)
    path.mkdir()


def mounted(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)
    path.with_name(path.name + ".unmounted").rename(path)


@pytest.mark.parametrize("take_away", [unmounted, empty_mount_point])
@pytest.mark.parametrize("name", ["a", "b"])
def test_partitions_of_a_missing_directory_are_offline_and_come_back_with_it(
    tmp_path: Path, take_away: Callable[[Path], None], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path).filled()
    take_away(broker.path(name))
    logs = broker.start()
    assert sorted(broker.spans(logs).values(), key=str) == [100, 100, None, None]
    assert logs.made_again == []
    assert "is its disk mounted?" in caplog.text
    assert not (broker.path(name) / "meta.properties").exists(), "not taken for a new one"
    new = logs.create(TopicPartition("new", 0), NEW_ID, TopicConfig())
    assert new.log_end_offset == 0, "a topic that is made now has nothing that could be missing"
    logs.stop()
    mounted(broker.path(name))
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100)
    assert len(broker.came_back) == 1
    logs.stop()
    broker.start().stop()
    assert not broker.came_back, "reported once"


def test_what_came_back_is_reported_again_after_a_start_that_was_cut_short(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    unmounted(broker.path("b"))
    broker.start().stop()
    mounted(broker.path("b"))
    for _ in range(2):
        logs = broker.manager()
        claims = logs.claim(broker.known)
        broker.known = list(claims.known.values())
        assert len(claims.came_back) == 1
        assert not logs.is_any_directory_missing
        logs.abandon()
    broker.start().stop()
    assert len(broker.came_back) == 1
    broker.start().stop()
    assert not broker.came_back


def test_partitions_of_a_directory_that_left_log_dirs_are_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(tmp_path).filled()
    broker.names = "a"
    logs = broker.start()
    assert sorted(broker.spans(logs).values(), key=str) == [100, 100, None, None]
    assert f"last at {broker.path('b')}, is in none of log.dirs" in caplog.text
    logs.stop()
    broker.names = "ac"
    broker.path("b").rename(broker.path("c"))
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100), "a directory may be mounted elsewhere"
    logs.stop()


def test_a_directory_that_is_added_is_just_new(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    broker.names = "abc"
    broker.topics = {"orders": (TOPIC_ID, 5)}
    logs = broker.start()
    assert broker.spans(logs) == {0: 100, 1: 100, 2: 100, 3: 100, 4: 0}
    assert logs.made_again == [TopicPartition("orders", 4)]
    assert (broker.path("c") / "meta.properties").exists()
    assert len(broker.known) == 3
    logs.stop()


def test_a_forgotten_directory_s_partitions_are_made_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    lost = {broker.number_in("b"), broker.number_in("b") + 2}
    unmounted(broker.path("b"))
    broker.forget("b")
    logs = broker.start()
    assert broker.spans(logs) == {number: 0 if number in lost else 100 for number in range(4)}
    assert {tp.partition for tp in logs.made_again} == lost
    logs.stop()


def test_a_forgotten_directory_that_comes_back_is_not_believed_where_there_are_others(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    lost = {broker.number_in("b"), broker.number_in("b") + 2}
    unmounted(broker.path("b"))
    broker.forget("b")
    logs = broker.start()
    assert {number for number, end in broker.spans(logs).items() if end == 0} == lost
    for number in lost:
        append(logs.create(TPS[number], TOPIC_ID, TopicConfig()), batch(7))
    logs.stop()
    broker.names = "abc"
    broker.path("b.unmounted").rename(broker.path("c"))
    logs = broker.start()
    assert broker.spans(logs) == {number: 7 if number in lost else 100 for number in range(4)}
    assert strays(tmp_path) == [f"orders-{number}" for number in sorted(lost)]
    assert not any(one.is_forgotten for one in broker.known if one.path == str(broker.path("c"))), "it is like the others now"
    logs.stop()


def test_a_forgotten_directory_that_comes_back_in_time_has_lost_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    broker.forget("b")
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100)
    assert not any(one.is_forgotten for one in broker.known)
    logs.stop()


def test_a_topic_made_again_while_its_disk_was_away_wins(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    away = {broker.number_in("b"), broker.number_in("b") + 2}
    unmounted(broker.path("b"))
    logs = broker.start()
    for tp in TPS:
        logs.delete(tp)
    broker.topics = {"orders": (NEW_ID, 4)}
    for tp in TPS:
        append(logs.create(tp, NEW_ID, TopicConfig()), batch(3))
    logs.stop()
    mounted(broker.path("b"))
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 3)
    assert strays(tmp_path) == [f"orders-{number}" for number in sorted(away)]
    logs.stop()


def test_one_directory_twice_is_refused(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    shutil.copytree(broker.path("a"), broker.path("c"))
    broker.names = "abc"
    with pytest.raises(InconsistentDirectoryError, match="have the same directory id"):
        broker.start()
    broker.names = "ab"
    broker.start().stop()


def test_a_directory_of_an_older_kafka_gets_its_id_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "a")
    broker.path("a").mkdir()
    (broker.path("a") / "meta.properties").write_text("version=1\ncluster.id=a-cluster\nnode.id=1\n")
    broker.start().stop()
    (first,) = broker.known
    broker.start().stop()
    assert broker.known == [first]
    assert f"directory.id={first.directory_id}" in (broker.path("a") / "meta.properties").read_text()


# --- a start that something is in the way of ---


@pytest.mark.parametrize("what", ["the directory", "a log"])
def test_a_broken_directory_keeps_no_other_from_starting(tmp_path: Path, what: str) -> None:
    broker = Broker(tmp_path).filled()
    broken = str(broker.path("b")) if what == "the directory" else f"{broker.path('b')}/orders-{broker.number_in('b')}"
    broker.filesystem.fails = lambda path: path.startswith(broken)
    logs = broker.start()
    assert [directory.is_offline for directory in logs.directories] == [False, True]
    assert sorted(broker.spans(logs).values(), key=str) == [100, 100, None, None]
    logs.abandon()
    broker.filesystem.fails = lambda _: False
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100)
    logs.stop()


def test_too_few_descriptors_are_no_reason_to_start_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path).filled()
    real = Filesystem.read_file

    def no_descriptor(self: Filesystem, path: str) -> bytes:
        if path.startswith(str(broker.path("b"))):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(Filesystem, "read_file", no_descriptor)
        with pytest.raises(KafkaError, match="no file descriptor"):
            broker.start()
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100)
    logs.stop()


def test_no_directory_that_works_is_one_error_that_names_them(tmp_path: Path) -> None:
    broker = Broker(tmp_path).filled()
    broker.filesystem.fails = lambda path: True
    with pytest.raises(KafkaError, match=r"no log directory works: .*a: .*b: "):
        broker.start()
    broker.filesystem.fails = lambda path: False
    broker.start().stop()


@pytest.mark.parametrize("error", [ValueError("unexpected"), KafkaError(ErrorCode.CORRUPT_MESSAGE, "damaged"), KeyError(7)])
def test_a_partition_that_cannot_be_opened_is_offline_alone_and_keeps_its_state(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path).filled()
    logs = broker.start()
    first = logs.create(TPS[0], TOPIC_ID, TopicConfig())
    first.increment_log_start_offset(Offset(30), high_watermark=Offset(100))
    logs.passes.write_high_watermarks(dict.fromkeys(TPS, Offset(100)).get)
    logs.stop()
    load = recovery.load

    def failing(log: Log, last: LastRun) -> None:
        if log.topic_partition == TPS[0]:
            raise error
        load(log, last)

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "load", failing)
        logs = broker.start()
    assert not any(directory.is_offline for directory in logs.directories)
    assert broker.spans(logs) == {0: None, 1: 100, 2: 100, 3: 100}
    assert "Traceback" in caplog.text
    with pytest.raises(KafkaError, match=r"orders-0 is offline: its log in .* cannot be opened"):
        logs.create(TPS[0], TOPIC_ID, TopicConfig())
    logs.passes.checkpoint()
    logs.passes.write_high_watermarks(dict.fromkeys(TPS[1:], Offset(100)).get)
    logs.stop()
    kept = read_stored(Filesystem(), f"{first.log_directory.path}/{checkpoint.LOG_START_OFFSET_FILE}")
    assert kept[TPS[0]] == StoredOffset(TOPIC_ID, Offset(30))
    logs = broker.start()
    assert broker.spans(logs) == dict.fromkeys(range(4), 100)
    again = logs.create(TPS[0], TOPIC_ID, TopicConfig())
    assert again.log_start_offset == 30, "what was deleted stays deleted"
    assert logs.read_high_watermarks()[TPS[0]] == 100
    logs.stop()


@pytest.mark.parametrize("was_clean", [False, True])
def test_a_stop_is_not_clean_before_every_log_is_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_clean: bool
) -> None:
    """A clean stop would mean that the log has a snapshot of its producers."""
    broker = Broker(tmp_path, "a")
    logs = broker.start()
    append(logs.create(TPS[0], TOPIC_ID, TopicConfig()), batch(3))
    (logs.stop if was_clean else logs.abandon)()

    def failing(_log: Log, _last: LastRun) -> None:
        raise ValueError("unexpected")

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "load", failing)
        broker.start().stop()
    logs = broker.start()
    assert logs.directories[0].was_clean is was_clean
    assert broker.spans(logs)[0] == 3
    logs.stop()


def test_a_log_that_cannot_be_opened_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path, "a")
    logs = broker.start()
    append(logs.create(TPS[0], TOPIC_ID, TopicConfig()), batch(3))
    logs.stop()

    def failing(_log: Log, _last: LastRun) -> None:
        raise ValueError("unexpected")

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "load", failing)
        logs = broker.start()
    logs.delete(TPS[0])
    assert logs.create(TPS[0], NEW_ID, TopicConfig()).log_end_offset == 0
    logs.stop()


# --- two copies of one partition ---


class TwoCopies:
    """orders-0 in both directories; `a` has 100 records, all of epoch 0."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(folder)
        self.broker.topics = {"orders": (TOPIC_ID, 1)}
        logs = self.broker.start()
        append(logs.create(TPS[0], TOPIC_ID, TopicConfig()), batch(100, size=5))
        logs.stop()
        (self.first,) = [name for name in "ab" if (self.broker.path(name) / "orders-0").exists()]
        (self.second,) = {*"ab"} - {self.first}
        shutil.copytree(self.broker.path(self.first) / "orders-0", self.broker.path(self.second) / "orders-0")

    def append_to(self, name: str, count: int, *, leader_epoch: int = 0) -> None:
        broker = Broker(self.broker.folder, name)
        broker.topics = self.broker.topics
        logs = broker.start()
        append(logs.create(TPS[0], TOPIC_ID, TopicConfig()), batch(count), leader_epoch=leader_epoch)
        logs.stop()

    def settled(self) -> tuple[str, int]:
        """Return which directory has the log, and where the log ends; the other copy is a stray with all that it had."""
        logs = self.broker.start()
        log = logs.create(TPS[0], TOPIC_ID, TopicConfig(), is_new=False)
        found = Path(log.log_directory.path).name, log.log_end_offset
        assert strays(self.broker.folder) == ["orders-0"]
        logs.stop()
        logs = self.broker.start()
        assert logs.create(TPS[0], TOPIC_ID, TopicConfig(), is_new=False).log_end_offset == found[1], "for good"
        logs.stop()
        return found


@pytest.mark.parametrize("of", ["first", "second"])
def test_of_two_copies_the_longer_wins_as_after_a_power_failure_in_a_move(tmp_path: Path, of: str) -> None:
    copies = TwoCopies(tmp_path)
    copies.append_to(getattr(copies, of), 5)
    assert copies.settled() == (getattr(copies, of), 105)


def test_of_two_copies_the_later_leader_s_wins(tmp_path: Path) -> None:
    copies = TwoCopies(tmp_path)
    copies.append_to(copies.first, 50)
    copies.append_to(copies.second, 1, leader_epoch=3)
    assert copies.settled() == (copies.second, 101)


def test_of_two_copies_that_are_the_same_one_stays(tmp_path: Path) -> None:
    copies = TwoCopies(tmp_path)
    assert copies.settled() == ("a", 100)


def test_of_two_copies_that_of_an_older_topic_is_a_stray_however_long(tmp_path: Path) -> None:
    copies = TwoCopies(tmp_path)
    copies.append_to(copies.first, 50)
    folder = str(copies.broker.path(copies.first) / "orders-0")
    checkpoint.write_partition_metadata(Filesystem(), folder, NEW_ID)
    assert copies.settled() == (copies.second, 100)


def test_of_two_copies_one_without_a_topic_id_loses(tmp_path: Path) -> None:
    copies = TwoCopies(tmp_path)
    copies.append_to(copies.first, 50)
    folder = copies.broker.path(copies.first)
    (folder / "orders-0" / "partition.metadata").unlink()
    # As another program writes it, so that the checkpoint does not give the id either.
    checkpoint.write_offsets(Filesystem(), str(folder / checkpoint.RECOVERY_POINT_FILE), {TopicPartition("orders", 0): Offset(0)})
    assert copies.settled() == (copies.second, 100)


def test_of_two_copies_with_one_unreadable_none_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = TwoCopies(tmp_path)
    load = recovery.load

    def failing(log: Log, last: LastRun) -> None:
        if log.path.startswith(str(copies.broker.path(copies.second))):
            raise ValueError("unexpected")
        load(log, last)

    with monkeypatch.context() as patched:
        patched.setattr(recovery, "load", failing)
        logs = copies.broker.start()
    assert copies.broker.spans(logs) == {0: None}
    assert strays(tmp_path) == []
    logs.stop()


# --- strays ---


def test_a_stray_without_records_is_removed(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "a")
    logs = broker.start()
    logs.create(TopicPartition("never-acknowledged", 0), NEW_ID, TopicConfig())
    append(logs.create(TopicPartition("unknown", 0), NEW_ID, TopicConfig()), batch(1))
    logs.stop()
    logs = broker.start()
    assert strays(tmp_path) == ["unknown-0"]
    logs.remove_due(START_MS)
    assert not list(tmp_path.rglob("never-acknowledged*"))
    logs.stop()


@pytest.mark.parametrize("length", [205, 249])
def test_a_stray_of_a_long_name_keeps_topic_and_partition(tmp_path: Path, length: int) -> None:
    broker = Broker(tmp_path, "a")
    tp = TopicPartition("t" * length, 1234)
    logs = broker.start()
    append(logs.create(tp, NEW_ID, TopicConfig()), batch(1))
    logs.stop()
    broker.start().stop()
    (stray,) = broker.path("a").glob("*-stray")
    assert "-1234." in stray.name
    assert len(stray.name) <= 255
    names = [stray.name.partition(".")[0], *[one.read_text().strip() for one in stray.glob("partition.name")]]
    assert str(tp) in names


def test_a_deleted_topic_of_a_long_name_is_removed(tmp_path: Path) -> None:
    broker = Broker(tmp_path, "a")
    logs = broker.start()
    tp = TopicPartition("t" * 249, 1234)
    logs.create(tp, NEW_ID, TopicConfig())
    logs.delete(tp)
    logs.stop()
    logs = broker.start()
    logs.remove_due(START_MS)
    assert not list(broker.path("a").glob("t*"))
    logs.stop()


# --- durable names ---


def test_the_first_flush_of_new_logs_makes_their_names_durable_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(tmp_path, "a")
    logs = broker.start()
    synced: list[str] = []
    made = [logs.create(TopicPartition("many", number), NEW_ID, TopicConfig()) for number in range(50)]
    real = Filesystem.sync_directory
    monkeypatch.setattr(Filesystem, "sync_directory", lambda self, path: synced.append(path) or real(self, path))
    for log in made:
        append(log, batch(1))
        log.flush()
    assert synced.count(str(broker.path("a"))) == 1
    logs.delete(made[0].topic_partition)
    logs.passes.checkpoint()
    assert synced.count(str(broker.path("a"))) > 1, "and that one is gone"
    logs.stop()
