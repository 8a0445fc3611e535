"""The rows of a data directory are what a consumer would see; what cannot be read ends in one clear line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.log.checkpoints import checkpoint
from pybroker.model import Offset, TopicPartition
from pybroker.records import legacy
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.spark import _columns_python
from pybroker.spark.columns import KEY, OFFSET, TIMESTAMP, VALUE, ColumnBuilder
from pybroker.spark.datasource.reading import RangeReader
from pybroker.spark.errors import PipelineError
from testing.scenes.data_directories import START_MS, TP, DataDirectory, lay_down, parsed, plan, read_all, records_of
from testing.scenes.logs import delete_old_segments

SEGMENTS = {"segment_bytes": 2000, "index_interval_bytes": 200}


@pytest.fixture(params=[ColumnBuilder, _columns_python.ColumnBuilder], ids=["chosen", "pure"])
def _builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker.spark.datasource.reading.ColumnBuilder", request.param)


@pytest.mark.usefixtures("_builder")
@pytest.mark.parametrize("codec", list(CompressionType))
def test_every_codec_over_several_segments(tmp_path: Path, codec: CompressionType) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    expected = [record for i in range(30) for record in data.append(1 + i % 7, compression=codec, size=100)]
    data.checkpoint()
    assert len(data.log().segments) > 3 or codec
    assert data.read() == expected
    assert data.read(splitBytes="500") == expected


def test_small_record_batches_are_the_same_rows(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    expected = [record for _ in range(20) for record in data.append(5)]
    data.checkpoint()
    assert list(read_all(plan(data), 31, parsed(data), rows_max=7)) == expected
    assert list(read_all(plan(data), 31, parsed(data), bytes_max=100)) == expected


def test_only_what_is_wanted_is_filled(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    expected = data.append(3)
    data.checkpoint()
    assert data.read(wanted=OFFSET | TIMESTAMP) == [record._replace(key=None, value=None, headers=()) for record in expected]
    assert data.read(wanted=VALUE) == [Record(Offset(0), 0, None, record.value) for record in expected]
    assert data.read(wanted=0) == [Record(Offset(0), 0, None, None)] * 3


def test_headers_of_batches_alone_give_offsets_and_counts(tmp_path: Path) -> None:
    """The records are damaged on purpose: they are not read, unless compaction has left gaps."""
    data = DataDirectory(tmp_path)
    for _ in range(10):
        data.append(5, compression=CompressionType.ZSTD, size=50)
    data.checkpoint()
    file = Path(data.log().segments[0].path)
    file.write_bytes(file.read_bytes()[:-5] + b"?????")
    constraints: dict[str, Any] = {"startingOffsets": '{"events": {"0": 7}}', "endingOffsets": '{"events": {"0": 41}}'}
    assert [record.offset for record in data.read(wanted=OFFSET, **constraints)] == list(range(7, 41))
    assert len(data.read(wanted=0)) == 50
    with pytest.raises(PipelineError, match=r"00000\.log is damaged at byte \d+: .*checksum"):
        data.read(wanted=KEY)


def test_offsets_with_gaps_are_read_from_the_records(tmp_path: Path) -> None:
    records = [Record(Offset(offset), START_MS, b"k", b"v") for offset in (0, 3, 4)]
    emptied = build_batch([], base_offset=Offset(8), last_offset=Offset(9))
    data = (
        bytes(build_batch(records, last_offset=Offset(7)))
        + bytes(emptied)
        + bytes(build_batch([Record(Offset(20), START_MS, None, None)]))
    )
    lay_down(tmp_path, {0: data}, high_watermark=21)
    assert [record.offset for record in read_all(plan(tmp_path), OFFSET, parsed(tmp_path))] == [0, 3, 4, 20]
    assert list(read_all(plan(tmp_path), 31, parsed(tmp_path))) == [*records, Record(Offset(20), START_MS, None, None)]


def test_times_that_the_broker_set_are_read_from_headers(tmp_path: Path) -> None:
    records = [Record(Offset(i), START_MS + i, b"k", b"v") for i in range(3)]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=START_MS + 50)
    lay_down(tmp_path, {0: bytes(batch)}, high_watermark=3)
    expected = [Record(Offset(i), START_MS + 50, None, None) for i in range(3)]
    assert list(read_all(plan(tmp_path), OFFSET | TIMESTAMP, parsed(tmp_path))) == expected


@pytest.mark.usefixtures("_builder")
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
@pytest.mark.parametrize("wanted", [31, OFFSET, 0])
def test_segments_of_old_messages(tmp_path: Path, magic: int, codec: CompressionType, wanted: int) -> None:
    records = [Record(Offset(i), START_MS + i, b"k%d" % i, None if i == 3 else b"v" * i) for i in range(20)]
    old = b"".join(bytes(build_message_set(records[i : i + 4], magic=magic, compression=codec)) for i in range(0, 20, 4))
    new = [Record(Offset(20 + i), START_MS, b"k", b"v", (("h", None),)) for i in range(3)]
    lay_down(tmp_path, {0: old, 20: bytes(build_batch(new))}, high_watermark=23)
    expected = [*legacy.records(old), *new]
    if wanted == OFFSET:
        expected = [Record(record.offset, 0, None, None) for record in expected]
    elif not wanted:
        expected = [Record(Offset(0), 0, None, None)] * 23
    assert list(read_all(plan(tmp_path), wanted, parsed(tmp_path))) == expected
    some = parsed(tmp_path, startingOffsets='{"events": {"0": 5}}', endingOffsets='{"events": {"0": 22}}')
    ranges = plan(tmp_path, startingOffsets='{"events": {"0": 5}}', endingOffsets='{"events": {"0": 22}}')
    assert list(read_all(ranges, wanted, some)) == expected[5:22]


def test_mixed_formats_in_one_segment(tmp_path: Path) -> None:
    records = [Record(Offset(i), START_MS + i, b"k", b"v%d" % i) for i in range(12)]
    parts = [
        build_message_set(records[:3], magic=0),
        build_message_set(records[3:5], magic=1),
        build_message_set(records[5:7], magic=1, compression=CompressionType.GZIP),
        build_message_set(records[7:9], magic=1),
        build_batch(records[9:]),
    ]
    lay_down(tmp_path, {0: b"".join(map(bytes, parts))}, high_watermark=12)
    expected = [record._replace(timestamp=-1) for record in records[:3]] + records[3:]
    assert list(read_all(plan(tmp_path), 31, parsed(tmp_path))) == expected
    runs = [run for one in plan(tmp_path) for rows in RangeReader(31, parsed(tmp_path)).read(one) for run in rows.runs]
    assert [(run.rows, run.magic, run.codec, run.timestamp_type) for run in runs] == [
        (3, 0, "none", -1),
        (2, 1, "none", 0),
        (2, 1, "gzip", 0),
        (2, 1, "none", 0),
        (3, 2, "none", 0),
    ]


def test_columns_from_the_headers_of_batches(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.append(2, producer_id=7, producer_epoch=3, base_sequence=0, compression=CompressionType.LZ4)
    data.append(1)
    data.checkpoint()
    (one,) = plan(data)
    (rows,) = RangeReader(31, parsed(data)).read(one)
    assert [tuple(run) for run in rows.runs] == [
        (2, 0, "lz4", 2, 0, 0, 7, 3, 0, False),
        (1, 2, "none", 2, 0, 0, -1, -1, -1, False),
    ]
    assert len(records_of(rows)) == 3


# --- transactions


def test_aborted_records_and_markers_are_not_seen(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    kept = data.append(2)
    for round_ in range(6):
        aborted: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": round_ * 3, "is_transactional": True}
        committed: dict[str, Any] = {"producer_id": 2, "producer_epoch": 0, "base_sequence": round_ * 3, "is_transactional": True}
        data.append(2, size=200, **aborted)
        kept += data.append(3, size=200, **committed)
        data.append(1, size=200, **(aborted | {"base_sequence": round_ * 3 + 2}))
        data.end_transaction(1, commit=False)
        kept += data.append(1)
        data.end_transaction(2, commit=True)
    data.checkpoint()
    assert len(data.log().segments) > 2
    assert data.read() == kept
    assert data.read(splitBytes="300") == kept
    everything = data.read(isolation="read_uncommitted")
    assert [record.offset for record in everything] == sorted(
        {record.offset for record in kept} | {record.offset for record in everything}
    )
    assert len(everything) == len(kept) + 6 * 3


def test_any_range_may_begin_and_end_at_markers_and_aborted_records(tmp_path: Path) -> None:
    """Each start and end is tried: ranges of markers alone, and ends within an aborted transaction, or before its marker."""
    data = DataDirectory(tmp_path)
    kept = data.append(1)
    aborted = data.append(2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    data.end_transaction(1, commit=False)
    committed = data.append(2, producer_id=1, producer_epoch=0, base_sequence=2, is_transactional=True)
    data.end_transaction(1, commit=True)
    aborted += data.append(1, producer_id=1, producer_epoch=0, base_sequence=4, is_transactional=True)
    data.end_transaction(1, commit=False)
    data.checkpoint()
    end_offset = 9
    assert data.log().log_end_offset == end_offset
    seen = {"read_committed": kept + committed, "read_uncommitted": sorted(kept + committed + aborted)}
    for isolation, records in seen.items():
        for start in range(end_offset + 1):
            for end in range(start, end_offset + 1):
                options: dict[str, Any] = {
                    "isolation.level": isolation,
                    "startingOffsets": f'{{"events": {{"0": {start}}}}}',
                    "endingOffsets": f'{{"events": {{"0": {end}}}}}',
                }
                wanted = [record for record in records if start <= record.offset < end]
                assert data.read(**options) == wanted, options
                assert [one.offset for one in data.read(wanted=OFFSET, **options)] == [one.offset for one in wanted], options


def test_the_isolation_level_has_the_names_of_kafka_and_of_its_connector(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    open_ = data.append(1, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    data.checkpoint()
    assert data.read() == []
    for name in ("isolation.level", "kafka.isolation.level", "isolation"):
        for level, seen in (("read_uncommitted", open_), ("READ_COMMITTED", [])):
            options: dict[str, Any] = {name: level}
            assert data.read(**options) == seen, options
    both: dict[str, Any] = {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}
    with pytest.raises(
        PipelineError, match=r"^isolation\.level and kafka\.isolation\.level are the same option, with different values$"
    ):
        data.read(**both)


def test_open_transactions_hold_back_what_follows(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    kept = data.append(4)
    open_ = data.append(2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    later = [record for _ in range(20) for record in data.append(4, size=100)]  # so that segments roll, with snapshots
    data.checkpoint()
    assert len(data.log().segments) > 2
    assert data.read() == kept
    assert data.read(isolation="read_uncommitted") == kept + open_ + later
    data.end_transaction(1, commit=True)
    assert data.read() == kept  # the high watermark is below the marker
    data.checkpoint()
    assert data.read() == kept + open_ + later


def test_an_abort_is_known_before_its_index_is_written(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    kept = data.append(1)
    data.append(2, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    data.end_transaction(1, commit=False)
    kept += data.append(1)
    data.checkpoint()
    Path(data.log().segments[0].transaction_index.path).unlink()
    assert data.read() == kept


# --- what is committed


def test_the_high_watermark_ends_the_snapshot(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = [record for _ in range(4) for record in data.append(5)]
    data.checkpoint({TP: 10})
    assert data.read() == records[:10]
    assert data.read(until="logEnd") == records
    data.checkpoint({TP: 0})
    assert data.read() == []
    data.checkpoint({TP: 10_000})  # the machine went down and lost the tail
    assert data.read() == records


def test_a_torn_tail_is_not_read(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = data.append(3) + data.append(3)
    data.checkpoint({TP: 9})
    path = Path(data.log().segments[0].path)
    whole = path.read_bytes()
    batch = bytes(build_batch([Record(Offset(6), START_MS, b"k", b"v" * 100)]))
    for tail in (batch[:10], batch[:40], batch[:-1], bytes(5000), batch[:-3] + b"???", b"\xff" * 100):
        path.write_bytes(whole + tail)
        assert data.read(until="logEnd") == records, tail
    for tail in (batch[:10], batch[:-1], bytes(5000)):
        path.write_bytes(whole + tail)
        assert data.read() == records, tail
    path.write_bytes(whole + batch[:-3] + b"???")
    with pytest.raises(PipelineError, match=f"damaged at byte {len(whole)}: .*checksum"):  # committed, but damaged
        data.read()


def test_the_log_start_offset_is_respected(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = [record for _ in range(4) for record in data.append(5)]
    data.log().increment_log_start_offset(Offset(7), high_watermark=Offset(20))
    data.checkpoint()
    assert data.read() == records[7:]
    with pytest.raises(PipelineError, match=r"4 offsets of events-0, from 3 to 6, are gone: .*failOnDataLoss=false"):
        data.read(startingOffsets='{"events": {"0": 3}}')
    assert data.read(startingOffsets='{"events": {"0": 3}}', failOnDataLoss="false") == records[7:]


def test_starting_and_ending_offsets(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    other = TopicPartition("events", 1)
    zero, one = data.append(9), data.append(9, tp=other)
    data.checkpoint()
    starting, ending = '{"events": {"0": 4, "1": -1}}', '{"events": {"0": 6}}'
    assert data.read(startingOffsets=starting) == zero[4:]
    assert data.read(endingOffsets=ending) == zero[:6] + one
    assert data.read(startingOffsets="latest") == []
    with pytest.raises(PipelineError, match="events-0 ends at offset 9, before the requested offset 30"):
        data.read(endingOffsets='{"events": {"0": 30}}')


def test_several_directories(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path / "a"), DataDirectory(tmp_path / "b")
    other = TopicPartition("events", 1)
    expected = first.append(3) + second.append(2, tp=other)
    first.checkpoint()
    second.checkpoint()
    both = parsed(tmp_path, path=f"{first.path}, {second.path}")
    assert list(read_all(plan(tmp_path, path=f"{first.path},{second.path}"), 31, both)) == expected
    second.append(1)
    second.checkpoint()
    with pytest.raises(PipelineError, match=r"events-0 lies in .*/a/events-0 and in .*/b/events-0"):
        plan(tmp_path, path=f"{first.path},{second.path}")


def test_topics_are_chosen(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = {name: data.append(1, tp=TopicPartition(name, 0)) for name in ("a.one", "a.two", "b-1", "__consumer_offsets")}
    (tmp_path / ("a.one-0." + "0" * 32 + "-delete")).mkdir()
    (tmp_path / "lost+found").mkdir()
    data.checkpoint()
    assert data.read() == records["a.one"] + records["a.two"] + records["b-1"]
    assert data.read(topic="b-1") == records["b-1"]
    assert data.read(topic="__consumer_offsets,b-1") == records["__consumer_offsets"] + records["b-1"]
    assert data.read(topicPattern=r"a\..*") == records["a.one"] + records["a.two"]
    with pytest.raises(PipelineError, match=r"no topic c in .*: the topics are __consumer_offsets, a.one, a.two, b-1"):
        data.read(topic="a.one,c")
    with pytest.raises(PipelineError, match=r"no topic matches c.* in"):
        data.read(topicPattern="c.*")


# --- bad input


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=f"there is no data directory {tmp_path}/nowhere"):
        plan(tmp_path / "nowhere")
    (tmp_path / "photos").mkdir()
    with pytest.raises(PipelineError, match="photos is not the data directory of a broker"):
        plan(tmp_path / "photos")
    lay_down(tmp_path / "copied", {0: bytes(build_batch([Record(Offset(0), 0, None, b"v")]))})
    with pytest.raises(PipelineError, match=r"has no replication-offset-checkpoint .* until=logEnd"):
        plan(tmp_path / "copied")
    assert len(plan(tmp_path / "copied", until="logEnd")) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "a"}, "pybroker has no option topics; the options are path, "),
        ({"topic": "a", "topicPattern": "b"}, "either topic or topicPattern"),
        ({"topicPattern": "("}, "is not a regular expression"),
        ({"isolation": "serializable"}, "isolation must be read_committed or read_uncommitted, not serializable"),
        ({"isolation.level": "1"}, "isolation.level must be read_committed or read_uncommitted, not 1"),
        ({"startingOffsets": "{"}, 'offsets must be written as {"topic": {"0": 5}}, not as {'),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "an offset below -2"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"splitBytes": "-1"}, "splitBytes must be a whole number above 0, not -1"),
        ({"path": ""}, "no data directory is given"),
        ({"paths": "["}, "paths must be a JSON list"),
    ],
)
def test_options_that_are_wrong(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(message)):
        plan(tmp_path, **options)


def test_names_of_options_may_be_in_any_case(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    expected = data.append(3)
    assert data.read(UNTIL="logend", Isolation="READ_UNCOMMITTED") == expected


def test_foreign_files_and_damage(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    expected = [record for _ in range(20) for record in data.append(4, size=100)]
    data.checkpoint()
    folder = Path(data.log().path)
    (folder / "notes.log").write_text("not a segment")
    (folder / "00000000000000000000.log.cleaned").write_text("a rewrite that has begun")
    assert data.read() == expected
    first = Path(data.log().segments[0].path)
    sound = first.read_bytes()
    first.write_bytes(b"%PDF-1.7 and so on" + sound[18:])
    with pytest.raises(PipelineError, match=r"0000\.log is damaged at byte 0: "):
        data.read()
    first.write_bytes(sound[: len(sound) - 30])
    with pytest.raises(PipelineError, match=r"0000\.log is damaged at byte \d+: \d+ bytes are left"):
        data.read()
    first.write_bytes(sound)
    checkpoint_file = data.path / checkpoint.REPLICATION_OFFSET_FILE
    checkpoint_file.write_text("hello")
    with pytest.raises(PipelineError, match=r"damaged checkpoint: .*replication-offset-checkpoint"):
        data.read()


def test_checksums_may_be_left_alone(tmp_path: Path) -> None:
    records = [Record(Offset(0), START_MS, b"k", b"value")]
    batch = bytes(build_batch(records)).replace(b"value", b"VALUE")
    lay_down(tmp_path, {0: batch}, high_watermark=1)
    with pytest.raises(PipelineError, match="checksum"):
        list(read_all(plan(tmp_path), 31, parsed(tmp_path)))
    assert list(read_all(plan(tmp_path), 31, parsed(tmp_path, checkCrcs="false"))) == [records[0]._replace(value=b"VALUE")]


def test_a_decompressed_section_that_is_no_records(tmp_path: Path) -> None:
    batch = bytearray(build_batch([Record(Offset(0), START_MS, b"k", b"v" * 50)], compression=CompressionType.ZSTD))
    batch[70] ^= 0xFF
    lay_down(tmp_path, {0: bytes(batch)}, high_watermark=1)
    with pytest.raises(PipelineError, match="damaged at byte 0: "):
        list(read_all(plan(tmp_path), 31, parsed(tmp_path, checkCrcs="false")))


# --- the broker keeps writing while we read


def test_segments_deleted_a_short_while_ago_are_still_read(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS, retention_bytes=100)
    expected = [record for _ in range(20) for record in data.append(4, size=100)]
    data.checkpoint()
    ranges, options = plan(data), parsed(data)
    assert delete_old_segments(data.log(), START_MS) > 2
    assert list(read_all(ranges, 31, options)) == expected


def test_segments_that_are_gone_end_the_job_or_are_left_out(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    expected = [record for _ in range(20) for record in data.append(4, size=100)]
    data.checkpoint()
    ranges, options = plan(data), parsed(data, failOnDataLoss="false")
    for file in Path(data.log().path).glob(f"{0:020d}.*"):
        file.unlink()
    end = ranges[0].end_offset
    with pytest.raises(
        PipelineError, match=rf"{end} offsets of events-0, from 0 to {end - 1}, are gone: .*0000\.log was removed"
    ):
        list(read_all(ranges, 31, parsed(data)))
    assert list(read_all(ranges, 31, options)) == expected[end:]
    assert data.read() == expected[end:]
    shutil.rmtree(data.log().path)
    assert list(read_all(ranges, 31, options)) == []


def test_compaction_between_plan_and_read(tmp_path: Path) -> None:
    """Two segments become one, with other positions; each of the remaining records is read once."""
    batches = [bytes(build_batch([Record(Offset(i), START_MS, b"k%d" % (i % 3), b"%d" % i)])) for i in range(30)]
    files = {0: b"".join(batches[:10]), 10: b"".join(batches[10:20]), 20: b"".join(batches[20:])}
    folder = lay_down(tmp_path, files, high_watermark=30)
    ranges, options = plan(tmp_path), parsed(tmp_path)
    assert [(one.start_offset, one.end_offset) for one in ranges] == [(0, 10), (10, 20), (20, 30)]
    kept = [7, 15, 17, 18, 19]
    (folder / f"{0:020d}.log.swap").write_bytes(b"".join(batches[i] for i in kept))
    (folder / f"{10:020d}.log").unlink()
    (folder / f"{0:020d}.log.swap").replace(folder / f"{0:020d}.log")
    assert [record.offset for record in read_all(ranges, 31, options)] == [*kept, *range(20, 30)]


def test_a_rewrite_that_never_ends_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lay_down(tmp_path, {0: bytes(build_batch([Record(Offset(0), 0, None, None)]))}, high_watermark=1)
    (folder / f"{0:020d}.log.swap").write_bytes(b"")
    monkeypatch.setattr("pybroker.spark.datasource.snapshot.PAUSE_S", 0)
    with pytest.raises(PipelineError, match=r"unfinished rewrite \(.swap files\): start its broker once"):
        plan(tmp_path)


def test_nothing_is_changed(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, **SEGMENTS)
    for _ in range(20):
        data.append(4, size=100)
    data.checkpoint()
    index = max(Path(data.log().path).glob("*.index"))
    index.write_bytes(index.read_bytes() + bytes(1 << 16))  # preallocated, like an index of Kafka
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert len(data.read()) == 80
    assert before == {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(tmp_path.rglob("*")) if path.is_file()
    }


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=25),
    split=st.integers(1, 2000),
    start=st.integers(0, 80),
    size=st.integers(0, 80),
)
def test_any_window_of_any_splits(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], split: int, start: int, size: int
) -> None:
    data = DataDirectory(tmp_path_factory.mktemp("log"), segment_bytes=1500, index_interval_bytes=100)
    records = [record for count in counts for record in data.append(count, size=60)]
    data.checkpoint()
    start, end = min(start, len(records)), min(start + size, len(records))
    window: dict[str, Any] = {
        "startingOffsets": f'{{"events": {{"0": {start}}}}}',
        "endingOffsets": f'{{"events": {{"0": {end}}}}}',
    }
    assert data.read(splitBytes=str(split), **window) == records[start:end]
