"""The output of `pybroker log dump` for each kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli.main import cli
from pybroker.coordinator.committed import CommittedOffset
from pybroker.coordinator.state.records import offset_record, offset_tombstone, to_bytes
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes.transaction_index import AbortedTransaction, TransactionIndex
from pybroker.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from pybroker.log.producers.producer_entry import BatchMetadata, ProducerEntry
from pybroker.log.producers.producer_snapshot import write
from pybroker.model import CoordinatorEpoch, GroupId, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from testing.scenes.logs import START_MS, TOPIC_ID, TP, Disk, append, batch

NAME = "00000000000000000000"


def dump(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["log", "dump", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def dump_json(*arguments: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in dump(*arguments, "--json").splitlines()]


def folder_with(tmp_path: Path, data: bytes | bytearray, *, topic: str = "events") -> Path:
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    (folder / f"{NAME}.log").write_bytes(data)
    return folder


def test_batches_and_records_have_the_names_of_kafkas_tool(tmp_path: Path) -> None:
    records = [Record(Offset(i), START_MS + i, b"k%d" % i, b"v\xff\n", (("h", b"x"), ("none", None))) for i in range(2)]
    data = build_batch(
        records, compression=CompressionType.ZSTD, producer_id=ProducerId(9), producer_epoch=ProducerEpoch(1), base_sequence=7
    )
    lines = dump(folder_with(tmp_path, data), "--records").splitlines()
    assert lines[0].startswith("Dumping ")
    assert lines[1] == "Log starting offset: 0"
    crc = int.from_bytes(data[17:21])
    assert lines[2] == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 7 lastSequence: 8 producerId: 9 producerEpoch: 1 "
        "partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: null position: 0 "
        f"CreateTime: {START_MS + 1} size: {len(data)} magic: 2 compresscodec: zstd crc: {crc} isvalid: true"
    )
    assert lines[3:] == [
        f"| offset: {i} CreateTime: {START_MS + i} keySize: 2 valueSize: 3 sequence: {7 + i} headers: [h=x,none=null] "
        f"key: k{i} payload: v\\xff\\n"
        for i in range(2)
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_messages_of_old_magic_have_real_offsets(tmp_path: Path, magic: int, codec: str) -> None:
    records = [Record(Offset(i), START_MS + i % 3, b"k", b"v%d" % (i % 3)) for i in range(6)]
    sets = [
        build_message_set(some, magic=magic, compression=CompressionType[codec.upper()]) for some in (records[:3], records[3:])
    ]
    folder = folder_with(tmp_path, b"".join(sets))
    found = dump_json(folder, "--records")
    printed = [one for one in found if one["type"] == "record"]
    assert [one["offset"] for one in printed] == list(range(6))
    assert [one["payload"] for one in printed] == ["v0", "v1", "v2"] * 2
    time = {"CreateTime": START_MS + 2} if magic else {"NoTimestampType": -1}
    assert printed[-1] | time == printed[-1]
    batches = [one for one in found if one["type"] == "batch"]
    assert [one["offset"] for one in batches] == ([2, 5] if codec != "none" else list(range(6)))
    assert {one["compresscodec"] for one in batches} == {codec}
    assert all(one["isvalid"] for one in batches)


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_the_end_of_a_transaction_is_decoded(tmp_path: Path, kind: ControlType) -> None:
    marker = build_transaction_marker(
        TransactionMarker(kind, CoordinatorEpoch(3)),
        producer_id=ProducerId(5),
        producer_epoch=ProducerEpoch(1),
        timestamp_ms=START_MS,
    )
    output = dump(folder_with(tmp_path, marker), "--records")
    assert f"| offset: 0 CreateTime: {START_MS} keySize: 4 valueSize: 6 sequence: -1 headers: [] " in output
    assert f" endTxnMarker: {kind.name} coordinatorEpoch: 3\n" in output


def test_committed_offsets_are_decoded(tmp_path: Path) -> None:
    pairs = [
        to_bytes(offset_record(GroupId("readers"), "t", 2, CommittedOffset(Offset(42), LeaderEpoch(3), "note", START_MS))),
        to_bytes(offset_tombstone(GroupId("readers"), "t", 2)),
        (b"\x00\x01?", b"?"),
        (b"\x00\x63", b"?"),
    ]
    folder = folder_with(
        tmp_path, build_batch([Record(Offset(i), START_MS, *pair) for i, pair in enumerate(pairs)]), topic="__consumer_offsets"
    )
    found = [one for one in dump_json(folder, "--decode", "offsets") if one["type"] == "record"]
    assert found[0]["key"] == {"type": "1", "data": {"group": "readers", "topic": "t", "partition": 2}}
    expected = {"offset": 42, "leaderEpoch": 3, "metadata": "note", "commitTimestamp": START_MS}
    assert found[0]["payload"] == {"version": "3", "data": expected}
    assert found[1]["payload"] is None
    assert found[2]["key"] == "\x00\x01?"
    assert "OffsetCommitKey" in str(found[2]["undecoded"])
    assert found[3]["undecoded"] == "record type 99: unknown"
    assert found[3]["payload"] == "?"
    assert dump(folder, "--decode", "auto") == dump(folder, "--decode", "offsets")
    assert 'key: {"type":"1","data":{"group":"readers"' in dump(folder, "--decode", "offsets")


def test_the_files_beside_the_data_are_printed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, segment_bytes=1000, index_interval_bytes=100)
    logs = disk.manager()
    logs.start()
    log = logs.create(TP, TOPIC_ID, disk.config)
    for number in range(12):
        append(log, batch(2, timestamp=START_MS + number), leader_epoch=number // 6)
    logs.stop()
    found = dump_json(tmp_path)
    kinds = {one["type"] for one in found}
    assert {"file", "batch", "index", "timeindex", "epoch", "checkpoint", "metadata"} <= kinds
    assert [(one["epoch"], one["startOffset"]) for one in found if one["type"] == "epoch"] == [(0, 0), (1, 12)]
    points = {(one["file"], one["position"]) for one in found if one["type"] == "batch"}
    entries = [one for one in found if one["type"] == "index"]
    assert entries
    assert all((str(one["file"]).replace(".index", ".log"), one["position"]) in points for one in entries)
    assert dump(tmp_path).count("\n") >= len(found)


def test_snapshots_and_aborted_transactions_are_printed(tmp_path: Path) -> None:
    filesystem, folder = Filesystem(), folder_with(tmp_path, b"")
    entry = ProducerEntry(ProducerId(5), ProducerEpoch(2), batches=(BatchMetadata(9, Offset(20), 4, START_MS),))
    write(filesystem, f"{folder}/00000000000000000021.snapshot", [entry])
    index = TransactionIndex(filesystem, f"{folder}/{NAME}.txnindex", Offset(0))
    index.append(AbortedTransaction(ProducerId(5), Offset(16), Offset(20), Offset(16)))
    epochs = LeaderEpochCache(filesystem, f"{folder}/leader-epoch-checkpoint")
    epochs.replace([EpochEntry(LeaderEpoch(1), Offset(0))])
    output = dump(folder)
    assert "producerId: 5 producerEpoch: 2 coordinatorEpoch: -1 currentTxnFirstOffset: -1" in output
    assert "firstSequence: 5 lastSequence: 9 lastOffset: 20" in output
    assert "version: 0 producerId: 5 firstOffset: 16 lastOffset: 20 lastStableOffset: 16" in output
    assert "epoch: 1 startOffset: 0" in output


def test_damage_is_printed_and_the_rest_too(tmp_path: Path) -> None:
    parts = [bytes(build_batch([Record(Offset(i), START_MS, b"k", b"v" * 40)])) for i in range(4)]
    parts[1] = b"\x07" * len(parts[1])
    output = dump(folder_with(tmp_path, b"".join(parts)))
    assert [line.split()[1] for line in output.splitlines() if line.startswith("baseOffset")] == ["0", "2", "3"]
    assert (
        f"Problem: byte {len(parts[0])}: magic: magic 7 is unknown; the next sound batch is at byte {len(parts[0] * 2)}" in output
    )


def test_only_the_batches_of_some_offsets(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, b"".join(bytes(build_batch([Record(Offset(i), START_MS, b"k", b"v")])) for i in range(9)))
    found = dump_json(folder, "--first-offset", "3", "--last-offset", "5")
    assert [one["baseOffset"] for one in found if one["type"] == "batch"] == [3, 4, 5]


@pytest.mark.parametrize(("name", "message"), [("missing", "there is no such file"), ("other.txt", "no file of a log has such")])
def test_other_paths_are_refused_in_one_line(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "other.txt").touch()
    result = CliRunner().invoke(cli, ["log", "dump", str(tmp_path / name)])
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1
