"""The findings of `pybroker log verify`; it finds nothing in sound logs."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli.main import cli
from pybroker.inspection.findings import Findings, Problem
from pybroker.inspection.verify import verify
from pybroker.model import Offset
from pybroker.records.batch import BatchView, Record, batches
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType
from testing.scenes.compacted_log import CompactedLog
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, Producer, append, batch

CODECS = list(CompressionType)


def problems(path: Path, **options: bool) -> list[Problem]:
    findings = Findings()
    verify(findings, path, **options)
    assert findings.problem_count >= len(findings.problems)
    return findings.problems


def kinds(path: Path) -> set[str]:
    return {one.kind for one in problems(path)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory after a clean stop, with several segments, epochs, codecs and producers."""
    disk = Disk(tmp_path, segment_bytes=1500, index_interval_bytes=100)
    logs = disk.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    for number in range(30):
        made = batch(3, timestamp=START_MS + number, compression=CODECS[number % 5], producer=Producer(7), sequence=number * 3)
        append(log, made, leader_epoch=number // 10)
    logs.stop()
    return tmp_path


@pytest.fixture
def partition(data: Path) -> Path:
    return data / str(TP)


def middle(partition: Path, ending: str = ".log") -> Path:
    return sorted(partition.glob(f"*{ending}"))[1]


def patch(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_a_sound_directory_has_no_problem(data: Path) -> None:
    result = CliRunner().invoke(cli, ["log", "verify", str(data)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("No problem found; checked: 1 partition, ")
    assert "30 batches, 90 records" in result.output
    result = CliRunner().invoke(cli, ["log", "verify", "--json", str(data)])
    (summary,) = map(json.loads, result.output.splitlines())
    assert (summary["problems"], summary["checked"]["records"]) == (0, 90)


def test_each_file_of_a_sound_partition_has_no_problem(data: Path) -> None:
    files = [one for one in data.rglob("*") if one.is_file() and not one.name.startswith(".") and one.name != "meta.properties"]
    assert len(files) > 15
    for file in files:
        assert not problems(file), file


def test_a_problem_has_its_place(partition: Path) -> None:
    path = middle(partition)
    first = next(batches(path.read_bytes()))
    patch(path, first.batch_length + 70, b"\xa5\x5a")
    result = CliRunner().invoke(cli, ["log", "verify", str(partition)])
    assert result.exit_code == 1
    line, summary = result.output.splitlines()
    assert line.startswith(f"{path}: byte {first.batch_length}: offset {first.next_offset}: crc: the checksum of the batch is ")
    assert summary.startswith("1 problem in 1 file; checked: 1 partition")
    result = CliRunner().invoke(cli, ["log", "verify", "--json", str(partition)])
    found = json.loads(result.output.splitlines()[0])
    assert (found["position"], found["offset"], found["kind"]) == (first.batch_length, first.next_offset, "crc")


def test_every_flipped_byte_of_a_batch_is_found(partition: Path) -> None:
    path, draw = middle(partition), random.Random(20)
    sound = path.read_bytes()
    views = list(batches(sound))
    positions = [view.position + at for view in views[:4] for at in range(61)] + [draw.randrange(len(sound)) for _ in range(80)]
    for position in positions:
        path.write_bytes(sound)
        patch(path, position, bytes([sound[position] ^ draw.randrange(1, 256)]))
        of_batch = max(view.position for view in views if view.position <= position)
        found = [one for one in problems(partition) if one.path == path]
        assert found, f"byte {position} of the batch at {of_batch}"
        assert min(one.position or 0 for one in found) <= of_batch + views[0].batch_length * 2, (position, found)
    path.write_bytes(sound)
    assert not problems(partition)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_old_messages_are_no_damage_and_their_flipped_bytes_are(tmp_path: Path, magic: int, codec: str) -> None:
    folder = tmp_path / "old-0"
    folder.mkdir()
    path = folder / f"{0:020d}.log"
    records = [Record(Offset(i), START_MS + i, b"k", b"value %d" % i) for i in range(12)]
    kind = CompressionType[codec.upper()]
    sound = b"".join(build_message_set(records[i : i + 3], magic=magic, compression=kind) for i in range(0, 12, 3))
    path.write_bytes(sound)
    findings = Findings()
    verify(findings, folder)
    assert (findings.problems, findings.counts["records"]) == ([], 12)
    draw = random.Random(3)
    for position in range(len(sound)):
        patch(path, position, bytes([sound[position] ^ draw.randrange(1, 256)]))
        assert problems(folder), position
        path.write_bytes(sound)


def test_several_damaged_batches_are_all_found(partition: Path) -> None:
    path = middle(partition)
    views = list(batches(path.read_bytes()))
    for view in views[1:4]:
        patch(path, view.position + 65, b"\xff\xee")
    found = [one.position for one in problems(partition) if one.kind == "crc"]
    assert found == [view.position for view in views[1:4]]


def test_a_cut_and_zeros_at_the_end_are_found(partition: Path) -> None:
    path = max(partition.glob("*.log"))
    sound = path.read_bytes()
    path.write_bytes(sound[:-5])
    assert {"length"} <= kinds(partition)
    path.write_bytes(sound + bytes(4096))
    (found,) = problems(partition)
    assert (found.kind, found.position, found.text) == ("zeros", len(sound), "4096 bytes of zeros up to the end of the file")


def rename(partition: Path) -> None:
    for path in partition.glob(f"{middle(partition).stem}.*"):
        if path.suffix != ".snapshot":
            path.rename(path.with_name(f"{int(path.stem) - 1:020d}{path.suffix}"))


def remove_a_segment(partition: Path) -> None:
    for path in partition.glob(f"{middle(partition).stem}.*"):
        path.unlink()


def remove_a_batch(partition: Path) -> None:
    path = middle(partition)
    data = path.read_bytes()
    view = next(batches(data))
    path.write_bytes(data[: view.batch_length] + data[view.batch_length + list(batches(data))[1].batch_length :])


def reorder(partition: Path) -> None:
    path = middle(partition)
    data = path.read_bytes()
    first, second = list(batches(data))[:2]
    path.write_bytes(bytes(second.data) + bytes(first.data) + data[second.end :])


def lie_about_time(partition: Path) -> None:
    path = middle(partition, ".timeindex")
    timestamp, offset = struct.unpack(">qi", path.read_bytes()[-12:])
    patch(path, path.stat().st_size - 12, struct.pack(">qi", timestamp + 1, offset))


def swap(ending: str, size: int) -> Callable[[Path], None]:
    def change(partition: Path) -> None:
        path = max(partition.glob(f"*{ending}"), key=lambda one: one.stat().st_size)
        data = path.read_bytes()
        path.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])

    return change


def write(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def work(partition: Path) -> None:
        path = middle(partition, name) if name.startswith(".") and "/" not in name else partition / name
        path.write_bytes(change(path.read_bytes()))

    return work


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    ("name", rename),
    ("gap", remove_a_segment),
    ("gap", remove_a_batch),
    ("order", reorder),
    ("time index", lie_about_time),
    ("index order", swap(".index", 8)),
    ("index order", swap(".timeindex", 12)),
    ("index length", write(".index", lambda data: data + b"?")),
    ("index length", write(".timeindex", lambda data: data[:-1])),
    ("index", write(".index", lambda data: data[:4] + struct.pack(">i", struct.unpack(">i", data[4:8])[0] + 1) + data[8:])),
    ("index", write(".index", lambda data: data + struct.pack(">ii", 90, 1_000_000))),
    ("time index", write(".timeindex", lambda data: data + struct.pack(">qi", START_MS * 2, 90))),
    ("snapshot crc", write(".snapshot", lambda data: data[:-1] + bytes([data[-1] ^ 1]))),
    ("snapshot length", write(".snapshot", lambda data: data[:5])),
    ("snapshot version", write(".snapshot", lambda data: b"\x00\x09" + data[2:])),
    ("epoch order", write("leader-epoch-checkpoint", lambda data: b"0\n2\n1 10\n0 20\n")),
    ("epoch order", write("leader-epoch-checkpoint", lambda data: b"0\n2\n0 0\n1 900\n")),
    ("epoch", write("leader-epoch-checkpoint", lambda data: b"0\n2\n0 0\n1 29\n")),
    ("checkpoint", write("leader-epoch-checkpoint", lambda data: b"0\n9\n0 0\n")),
    ("checkpoint", write("leader-epoch-checkpoint", lambda data: b"0\n1\n0 x\n")),
    ("partition metadata", write("partition.metadata", lambda data: b"version: 0\ntopic_id: ?\n")),
    ("checkpoint", write("../recovery-point-offset-checkpoint", lambda data: b"0\n1\nevents 3 91\n")),
    ("checkpoint crc", write("../recovery-point-offset-checkpoint.topic-ids", lambda data: data[:-3])),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change"), DAMAGE)
def test_damage_has_its_kind(data: Path, partition: Path, kind: str, change: Callable[[Path], None]) -> None:
    change(partition)
    assert kind in kinds(data)


def test_a_snapshot_beyond_its_offset_is_found(partition: Path) -> None:
    path = middle(partition, ".snapshot")
    path.rename(path.with_name(f"{1:020d}.snapshot"))
    assert kinds(partition) == {"snapshot"}


def test_records_that_the_header_does_not_promise_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir()
    made = build_batch([Record(Offset(i), START_MS, b"k", b"v") for i in range(3)])
    view = BatchView(memoryview(made))
    struct.pack_into(">i", made, 57, 2)
    struct.pack_into(">I", made, 17, view.computed_crc())
    (folder / f"{0:020d}.log").write_bytes(made)
    assert kinds(folder) == {"records"}


def test_a_compacted_log_may_have_gaps_and_aborted_transactions_are_compared(tmp_path: Path) -> None:
    compacted = CompactedLog(tmp_path)
    for number in range(60):
        compacted.put((b"k%d" % (number % 5), b"v" * 40))
    producer = Producer(9)
    compacted.put((b"k1", b"aborted"), producer=producer, is_transactional=True)
    marker = compacted.end_transaction(producer, ControlType.ABORT)
    compacted.roll()
    compacted.clean()
    compacted.put((b"end", b"v"))
    compacted.restart(is_clean=True)
    compacted.logs.stop()
    findings = Findings()
    verify(findings, tmp_path)
    assert not findings.problems
    assert findings.counts["records"] < 60
    partition = tmp_path / str(TP)
    (path,) = [one for one in partition.glob("*.txnindex") if one.stat().st_size]
    patch(path, 2, struct.pack(">q", 8))
    (found,) = problems(partition)
    assert (found.kind, found.offset) == ("transaction index", marker)


def test_which_logs_may_have_gaps(tmp_path: Path) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(
        b"".join(bytes(build_batch([Record(Offset(offset), START_MS, b"k", b"v")])) for offset in (0, 5, 9))
    )
    assert kinds(folder) == {"gap"}
    assert not problems(folder, may_have_gaps=True)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 9\n")
    assert not problems(folder)
    assert problems(folder, may_have_gaps=False)
    shutil.copytree(folder, tmp_path / "__consumer_offsets-7")
    assert not problems(tmp_path / "__consumer_offsets-7")


def test_an_index_that_kafka_has_allocated_ends_with_zeros(partition: Path) -> None:
    for ending, size in ((".index", 8), (".timeindex", 12)):
        path = max(partition.glob(f"*{ending}"))
        path.write_bytes(path.read_bytes() + bytes(size * 1000))
    assert not problems(partition)


def test_the_problems_of_one_file_are_counted_and_not_all_listed(partition: Path) -> None:
    path = middle(partition, ".index")
    path.write_bytes(path.read_bytes()[:8] * 500)
    result = CliRunner().invoke(cli, ["log", "verify", str(partition)])
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 101
    assert "problems in 1 file (399 of them not listed, only the first 100 of each file are)" in result.output
