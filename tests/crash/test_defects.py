"""Deliberate faults: the histories must find each of them within some seeds, or they would miss the next real fault too."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from pybroker.log.checkpoints.offset_checkpoint import BelievedOffset, OffsetCheckpoint, StoredOffset
from pybroker.log.cleaner.cleaner import LogCleaner
from pybroker.log.cleaner.worker import CleanerWorker
from pybroker.log.directories.directory import LogDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log import Log
from pybroker.log.manager.manager import LogManager
from pybroker.model import TopicId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing.work import Work
from testing.simulation.disk import SimulatedDisk
from tests.crash.history import FailedHistoryError, History, Plan

SEEDS = 60
"""Every change of the broker draws other histories. One of five finds the rarest defects, so this many find them each time."""


def _no_fsync_of_data() -> Any:
    return mock.patch("pybroker.log.segments.file_records.SegmentFile.sync")


def _rename_before_data() -> Any:
    def replace_file(self: Filesystem, path: str, data: bytes, *, sync: bool) -> None:
        self.write_file(f"{path}.1.tmp", data, sync=False)
        self.rename(f"{path}.1.tmp", path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    return mock.patch.object(Filesystem, "replace_file", replace_file)


def _checkpoints_by_name() -> Any:
    def offset_for(self: OffsetCheckpoint, tp: TopicPartition, _topic_id: TopicId) -> BelievedOffset | None:
        stored = self.read().get(tp)
        return None if stored is None else BelievedOffset(stored.offset, is_certain=True)

    return mock.patch.object(OffsetCheckpoint, "offset_for", offset_for)


def _target_removed_after_error() -> Any:
    discard = LogCleaner._discard

    def remove_and_discard(self: LogCleaner, log: Log, worker: CleanerWorker) -> Work[None]:
        if worker.target is not None:
            for path in worker.target.paths:
                log.filesystem.remove(path)
        yield from discard(self, log, worker)

    return mock.patch.object(LogCleaner, "_discard", remove_and_discard)


def _made_again_while_away() -> Any:
    return mock.patch.object(LogManager, "is_any_directory_missing", new=False)


def _moved_logs_not_kept() -> Any:
    """Let a checkpoint that was collected before a log was moved here be written without the log.

    A directory's thread is the only writer of its checkpoints, so what goes wrong between two writers of one file is in
    `tests/log/test_topic_ids.py`.
    """
    original = OffsetCheckpoint.keep

    def keep(self: OffsetCheckpoint, tp: TopicPartition, stored: StoredOffset | None = None) -> None:
        if stored is None:
            original(self, tp)

    return mock.patch.object(OffsetCheckpoint, "keep", keep)


def _acknowledged_before_fsync() -> Any:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(Log, "settled_end_offset", property(lambda self: self.log_end_offset)))
    stack.enter_context(mock.patch.object(Log, "is_settled", new=True))
    stack.enter_context(mock.patch("pybroker.replication.partition.Partition.check_settled", return_value=ErrorCode.NONE))
    return stack


def _epochs_not_raised() -> Any:
    return mock.patch("pybroker.broker.broker_server.renew_leader_epochs", new_callable=mock.AsyncMock)


def _names_of_a_killed_process_forgotten() -> Any:
    original = LogDirectory.__init__

    def init(self: LogDirectory, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self._names_changed = 0

    return mock.patch.object(LogDirectory, "__init__", init)


def _id_never_durable() -> Any:
    original = SimulatedDisk.sync_path

    def sync_path(self: SimulatedDisk, path: str) -> None:
        if not path.endswith("partition.metadata"):
            original(self, path)

    return mock.patch.object(SimulatedDisk, "sync_path", sync_path)


RECORDS = Plan(is_away=False, share=0.05, kinds=frozenset({"create", "produce", "retry", "delete records", "rest", "long rest"}))
FLUSHED = Plan(
    is_away=False,
    share=0.05,
    settings={"flush.messages": "1", "segment.bytes": "250"},
    kinds=frozenset({"create", "produce", "rest"}),
)
TOPICS = Plan(
    is_away=False,
    share=0.03,
    actions=30,
    names=("x",),
    kinds=frozenset({"create", "delete", "produce", "delete records", "long rest"}),
    weights={"create": 10, "delete": 6, "produce": 10, "delete records": 6, "long rest": 4},
    settings={"cleanup.policy": "delete"},
)
COMPACTION = Plan(
    is_away=False,
    share=0.03,
    kinds=frozenset({"create", "produce", "long rest"}),
    settings={"cleanup.policy": "compact", "segment.bytes": "250"},
    fault=errno.EIO,
    fault_kinds=frozenset({"rename"}),
    fault_path="*.log.swap -> *",
    fault_skip_max=2,
)
AWAY = Plan(legs=5, share=0.02, kinds=frozenset({"create", "produce", "rest", "long rest"}), settings={"flush.messages": "1"})
MOVES = Plan(
    is_away=False,
    legs=8,
    actions=30,
    share=0.0,
    interleaving=0.5,
    names=("x", "y"),
    kinds=frozenset({"create", "produce", "move"}),
    weights={"create": 30, "produce": 12, "move": 20},
    settings={"flush.messages": "1", "retention.bytes": "-1", "cleanup.policy": "compact", "segment.bytes": "250"},
)
KILLED = Plan(
    is_away=False,
    legs=4,
    actions=8,
    share=0.05,
    kinds=frozenset({"create", "produce"}),
    weights={"create": 6, "produce": 16},
    settings={"segment.bytes": "250"},
)

DEFECTS: dict[str, tuple[Callable[[], Any], Plan]] = {
    "data is not synced": (_no_fsync_of_data, FLUSHED),
    "a rename comes before its data": (_rename_before_data, RECORDS),
    "checkpoints are by name": (_checkpoints_by_name, TOPICS),
    "an error removes what replaces others": (_target_removed_after_error, COMPACTION),
    "partitions are made again while a directory is away": (_made_again_while_away, AWAY),
    "checkpoints have no entry of a log that is moved here": (_moved_logs_not_kept, MOVES),
    "an append is acknowledged before its fsync": (_acknowledged_before_fsync, FLUSHED),
    "leader epochs are not raised": (_epochs_not_raised, RECORDS),
    "names that a killed process made are not synced": (_names_of_a_killed_process_forgotten, KILLED),
    "the topic's id is never durable": (_id_never_durable, TOPICS),
}

FIRST_SEEDS = {
    "checkpoints are by name": 2,
    "checkpoints have no entry of a log that is moved here": 11,
    "leader epochs are not raised": 1,
    "names that a killed process made are not synced": 1,
    "partitions are made again while a directory is away": 1,
}
"""The seeds that found a defect when this was written, where that is not one of the first: they save time, and nothing else."""


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_defect_is_found(name: str) -> None:
    defect, plan = DEFECTS[name]
    first = FIRST_SEEDS.get(name, 0)
    with defect():
        for seed in range(first, first + SEEDS):
            try:
                History(seed, plan).run()
            except FailedHistoryError:
                return
    raise AssertionError(f"{name}: not found in {SEEDS} histories")


@pytest.mark.parametrize("name", [*{id(plan): name for name, (_, plan) in sorted(DEFECTS.items())}.values()])
def test_nothing_is_found_without_it(name: str) -> None:
    """Check it once for each plan."""
    History(FIRST_SEEDS.get(name, 0), DEFECTS[name][1]).run()
