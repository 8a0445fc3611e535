"""A disk that fails while a log is compacted: the old records or the new ones are there, in memory and on disk."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem, WriteBuffer
from pybroker.log.log import Log
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.control import ControlType
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import Producer, read_batches

TRANSIENT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
Visible = list[tuple[int, bytes | None, bytes | None]]


class Failing(Filesystem):
    """A file system that fails operation number `left` after it is armed, and with `is_dead` all later ones. It syncs nothing."""

    keeps_reserves = False  # else one of them would not be a failure

    def __init__(self) -> None:
        self.left = -1
        self.code = errno.EIO
        self.is_dead = False
        self.failed = ""

    def _operate(self, what: str) -> None:
        if self.left == 0:
            self.failed = self.failed or what
            self.left = 0 if self.is_dead else -1
            raise OSError(self.code, os.strerror(self.code), what)
        self.left -= self.left > 0

    def open(self, path: str, *, writable: bool, create: bool = False) -> int:
        self._operate(f"open {path}")
        return super().open(path, writable=writable, create=create)

    def write_fully(self, fd: int, data: WriteBuffer, position: int) -> None:
        self._operate("write")
        super().write_fully(fd, data, position)

    def sync(self, fd: int) -> None:
        self._operate("sync")

    def set_modified_ms(self, path: str, time_ms: int) -> None:
        self._operate(f"utime {path}")
        super().set_modified_ms(path, time_ms)

    def create_empty(self, path: str) -> None:
        self._operate(f"create {path}")
        super().create_empty(path)

    def rename(self, source: str, target: str) -> None:
        self._operate(f"rename {source} {target}")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._operate(f"remove {path}")
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._operate(f"sync {path}")


def transactional(folder: Path, filesystem: Filesystem) -> CompactedLog:
    """Make a log of two groups of several segments; it has aborted and committed transactions, two of them open over segments."""
    setting = CompactedLog(folder, filesystem=filesystem, segment_bytes=900)
    one, other = Producer(1), Producer(2)
    for n in range(3):
        for k in range(3):
            setting.put((b"key-%d" % k, b"%d" % n * 40))
        setting.put((b"key-0", b"aborted"), (b"only", b"aborted"), producer=one, sequence=2 * n, is_transactional=True)
        setting.put((b"kept-%d" % n, b"committed"), producer=other, sequence=n, is_transactional=True)
        setting.roll()
        setting.put((b"key-1", b"%d" % n * 30))
        setting.end_transaction(one, ControlType.ABORT)
        setting.end_transaction(other, ControlType.COMMIT)
        setting.roll()
    setting.put((b"key-2", None))
    setting.roll()
    setting.log.producers.on_high_watermark(setting.log.log_end_offset)
    return setting


def committed(log: Log) -> Visible:
    """Return what a consumer with read_committed gets, by the rules of consumers."""
    log.producers.on_high_watermark(log.log_end_offset)
    aborted = sorted(
        log.aborted_transactions(fetch_offset=log.log_start_offset, upper_offset=log.log_end_offset),
        key=lambda one: one.first_offset,
    )
    open_now: set[int] = set()
    found: Visible = []
    for batch in read_batches(log):
        while aborted and aborted[0].first_offset <= batch.last_offset:
            open_now.add(aborted.pop(0).producer_id)
        if batch.is_control:
            open_now.discard(batch.producer_id)
        elif not batch.is_transactional or batch.producer_id not in open_now:
            found += [(one.offset, one.key, one.value) for one in batch.records()]
    return found


def latest(records: Visible) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, key, value in records}


def check(log: Log, before: Visible) -> None:
    found = committed(log)
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets)), "each once, in order"
    assert set(found) <= set(before), "nothing that was not there, or not visible"
    assert latest(found) == latest(before), "of each key the last one"
    batches = [batch.base_offset for batch in read_batches(log)]
    assert batches == sorted(set(batches))


def each_failure(tmp_path: Path, code: int, *, is_dead: bool) -> Iterator[tuple[CompactedLog, Failing, Visible]]:
    """Yield the log after a compaction whose n-th operation failed, for every n."""
    for n in itertools.count():
        folder = tmp_path / f"{n}"
        folder.mkdir()
        filesystem = Failing()
        setting = transactional(folder, filesystem)
        before = committed(setting.log)
        filesystem.code, filesystem.is_dead, filesystem.left = code, is_dead, n
        setting.clean()
        filesystem.left = -1
        if not filesystem.failed:
            assert n > 60, "there is something to fail"
            return
        yield setting, filesystem, before


@pytest.mark.parametrize(("code", "is_dead"), [(errno.EIO, False), (errno.EIO, True), (errno.ENOSPC, False)])
def test_a_failure_leaves_the_old_or_the_new_to_the_next_start(tmp_path: Path, code: int, *, is_dead: bool) -> None:
    for setting, filesystem, before in each_failure(tmp_path, code, is_dead=is_dead):
        assert setting.log.log_directory.is_offline, filesystem.failed
        setting.restart()
        check(setting.log, before)
        setting.clean()
        check(setting.log, before)
        assert len(committed(setting.log)) == len(latest(before))
        setting.restart(is_clean=True)
        check(setting.log, before)
        setting.logs.abandon()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_after_a_failure_that_passes_it_continues(tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and files agree all the time, and at the end nothing is left of it."""

    def refuse(_: LogDirectory, error: OSError) -> KafkaError:
        assert error.errno in TRANSIENT
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    monkeypatch.setattr(LogDirectory, "fail", refuse)
    for setting, filesystem, before in each_failure(tmp_path, code, is_dead=False):
        check(setting.log, before)
        setting.clean()
        check(setting.log, before)
        assert len(committed(setting.log)) == len(latest(before)), filesystem.failed
        assert setting.log.replacement is None
        assert not setting.names(".swap") + setting.names(".cleaned"), filesystem.failed
        setting.restart()
        check(setting.log, before)
        setting.logs.abandon()
