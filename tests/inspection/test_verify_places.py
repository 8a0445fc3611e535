"""The reports of `pybroker log verify` about files of no log, unreadable files, and snapshots that contradict the log."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pybroker.cli.main import cli
from pybroker.inspection.findings import Findings
from pybroker.inspection.verify import verify
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerEntry
from pybroker.log.producers.producer_snapshot import write
from pybroker.model import NO_OFFSET, Offset, ProducerEpoch, ProducerId
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, Producer, append, batch


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory after a clean stop: 20 batches of one producer, of two records each, in several segments."""
    disk = Disk(tmp_path, segment_bytes=1500, index_interval_bytes=100)
    logs = disk.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    for number in range(20):
        append(log, batch(2, timestamp=START_MS + number, producer=Producer(7), sequence=number * 2))
    logs.stop()
    return tmp_path


@pytest.fixture
def partition(data: Path) -> Path:
    return data / str(TP)


def found_in(path: Path) -> Findings:
    findings = Findings()
    verify(findings, path)
    return findings


def only_problem(path: Path) -> tuple[str, str, str]:
    (one,) = found_in(path).problems
    return one.path.name, one.kind, one.text


@pytest.mark.parametrize("name", [f"{9:020d}.log", f"{0:020d}.txnindex", "recovery-point-offset-checkpoint.topic-ids"])
def test_a_link_that_leads_nowhere_is_a_fault(partition: Path, name: str) -> None:
    (partition / name).symlink_to("/nowhere/at/all")
    assert only_problem(partition) == (name, "link", "the link leads to /nowhere/at/all, which cannot be reached")


def test_a_partition_that_is_a_dangling_link_is_a_fault(data: Path) -> None:
    (data / "lost-0").symlink_to(data / "gone")
    assert only_problem(data)[:2] == ("lost-0", "link")


def test_a_link_to_a_partition_is_followed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    moved = tmp_path_factory.mktemp("other disk") / str(TP)
    (data / str(TP)).rename(moved)
    (data / str(TP)).symlink_to(moved)
    assert not found_in(data).problems
    assert found_in(data).counts["records"] == 40


@pytest.mark.parametrize("name", [f"{9:020d}.log", f"{9:020d}.index", "leader-epoch-checkpoint"])
def test_a_directory_with_the_name_of_a_file_is_a_fault(partition: Path, name: str) -> None:
    (partition / name).unlink(missing_ok=True)
    (partition / name).mkdir()
    assert only_problem(partition) == (name, "directory", "a directory has the name of a file of a log")


def test_a_pipe_with_the_name_of_a_file_is_a_fault(partition: Path) -> None:
    os.mkfifo(partition / f"{9:020d}.log")
    assert only_problem(partition)[1:] == ("file", "neither a file nor a directory")


@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_an_unreadable_file_is_named_and_the_others_are_checked(
    partition: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    path, real_open, real_read_file = min(partition.glob(f"*{ending}")), os.open, Filesystem.read_file

    def refused(of: object) -> bool:
        return str(of) == str(path)

    def error() -> PermissionError:
        return PermissionError(13, "Permission denied", str(path))

    def opened(of: Any, *arguments: Any, **options: Any) -> int:
        if refused(of):
            raise error()
        return real_open(of, *arguments, **options)

    def read_file(self: Filesystem, of: str) -> bytes:
        if refused(of):
            raise error()
        return real_read_file(self, of)

    monkeypatch.setattr("pybroker.inspection.data_file.os.open", opened)
    monkeypatch.setattr(Filesystem, "read_file", read_file)
    findings = found_in(partition)
    assert [(one.path, one.kind, one.text) for one in findings.problems] == [(path, "unreadable", "Permission denied")]
    assert findings.counts["segments"] == len(list(partition.glob("*.log")))


def test_unknown_entries_are_named_and_are_no_fault(data: Path) -> None:
    (data / str(TP) / "notes.txt").touch()
    (data / "backup").mkdir()
    (data / "report-7").touch()
    result = CliRunner().invoke(cli, ["log", "verify", str(data)])
    assert result.exit_code == 0, result.output
    *lines, summary = result.output.splitlines()
    assert lines == [
        f"{data}/backup: info: not one of the files of a log",
        f"{data}/report-7: info: a file with the name of a partition's directory",
        f"{data}/{TP}/notes.txt: info: not one of the files of a log",
    ]
    assert "No problem found" in summary
    assert "3 things that are no files of a log" in summary
    found = [json.loads(line) for line in CliRunner().invoke(cli, ["log", "verify", "--json", str(data)]).output.splitlines()]
    assert [one["type"] for one in found] == ["info"] * 3 + ["summary"]


def test_the_files_that_brokers_keep_beside_logs_are_known(data: Path) -> None:
    for name in (".lock", ".reserve", "metadata.sqlite-wal", "meta.properties", ".kafka_cleanshutdown"):
        (data / name).touch()
    for name in (
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.cleaned",
        f"{0:020d}.log.swap",
        "quorum-state",
        "partition.metadata.tmp",
    ):
        (data / str(TP) / name).touch()
    assert not found_in(data).infos


# --- snapshots of producers beside the log ---


def snapshot(partition: Path, offset: int, **changes: int) -> Path:
    """Write the snapshot of an offset as the log would have it, with changes."""
    last_offset = Offset(changes.get("last_offset", offset - 1))
    last = BatchMetadata(changes.get("last_sequence", offset - 1), last_offset, 1, START_MS)
    transaction = Offset(changes.get("transaction", NO_OFFSET))
    producer_id = ProducerId(changes.get("producer_id", 7))
    entry = ProducerEntry(producer_id, ProducerEpoch(0), transaction_first_offset=transaction, batches=(last,))
    path = partition / f"{offset:020d}.snapshot"
    write(Filesystem(), str(path), [entry])
    return path


def test_a_snapshot_that_fits_the_log_is_sound(partition: Path) -> None:
    snapshot(partition, 20)
    snapshot(partition, 21, last_offset=19)
    assert not found_in(partition).problems, "the second one lies inside of a batch, and is not compared"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"last_sequence": 18}, "producer 7 has the last offset and sequence (19, 18), but (19, 19) in the log"),
        ({"last_offset": 17}, "producer 7 has the last offset and sequence (17, 19), but (19, 19) in the log"),
        ({"producer_id": 8}, "producer 8 has the last offset and sequence (19, 19), but None in the log"),
        ({"transaction": 4}, "the transaction of producer 7 begins at 4, but at -1 in the log"),
    ],
)
def test_a_snapshot_that_contradicts_the_log_is_a_fault(partition: Path, changes: dict[str, int], text: str) -> None:
    path = snapshot(partition, 20, **changes)
    name, kind, fault = only_problem(partition)
    assert (name, kind) == (path.name, "snapshot")
    assert fault.startswith(text)


def test_a_snapshot_beyond_the_end_of_the_log_is_a_fault(partition: Path) -> None:
    path = snapshot(partition, 90, last_offset=39, last_sequence=39)
    assert only_problem(partition) == (path.name, "snapshot", "the snapshot is of offset 90, but the log ends at 40")


def test_an_open_transaction_that_the_snapshot_lacks_is_a_fault(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    logs = disk.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    append(log, batch(2, producer=Producer(7), is_transactional=True))
    logs.stop()
    assert not found_in(tmp_path).problems
    snapshot(tmp_path / str(TP), 2)
    assert only_problem(tmp_path)[2].startswith("the transaction of producer 7 begins at -1, but at 0 in the log")


def test_a_compacted_log_is_not_compared_with_its_snapshots(partition: Path) -> None:
    snapshot(partition, 20, last_sequence=3)
    findings = Findings()
    verify(findings, partition, may_have_gaps=True)
    assert not findings.problems


def test_the_empty_checkpoint_with_which_a_kafka_s_cleaner_begins_is_sound(data: Path) -> None:
    (data / "cleaner-offset-checkpoint").write_bytes(b"")
    assert not found_in(data).problems
    (data / "recovery-point-offset-checkpoint").write_bytes(b"")
    assert [(one.path.name, one.kind) for one in found_in(data).problems] == [("recovery-point-offset-checkpoint", "checkpoint")]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (r"cluster\.id=.*\n", "", "has no cluster.id"),
        (r"node\.id=.*\n", "node.id=one\n", "invalid literal for int() with base 10: 'one'"),
        (r"version=1", "version=7", "version 7"),
        (
            r"directory\.id=.*",
            "directory.id=abc",
            "directory.id=abc is no UUID: Kafka's form has 22 characters of URL-safe base64",
        ),
    ],
)
def test_what_a_directory_belongs_to_is_checked(data: Path, old: str, new: str, text: str) -> None:
    path = data / "meta.properties"
    path.write_text(re.sub(old, new, path.read_text()))
    assert [(one.path, one.kind, one.text) for one in found_in(data).problems] == [(path, "meta properties", text)]
