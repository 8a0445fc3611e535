from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.model import Offset
from pybroker.spark.archive.compaction import runs
from pybroker.spark.archive.files import ArchivedFile, joined, name_of, path_of
from pybroker.spark.archive.job import ArchiveOptions, left, loss, next_offsets
from pybroker.spark.cluster import Extent
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import AWAY, explain
from pybroker.spark.replay.rows import Selection


def file(first: int, size: int, *, date: str = "2026-11-21", partition: int = 0) -> ArchivedFile:
    return ArchivedFile(f"f{first}", "orders", date, partition, Offset(first), Offset(first + 9), 10, "ff", size, 100, 200)


def test_neighbours_that_are_small_are_joined_up_to_the_size_wanted() -> None:
    files = [file(0, 40), file(10, 40), file(20, 40), file(30, 90), file(40, 10), file(50, 10)]
    assert [[one.first for one in run] for run in runs(files, 100)] == [[0, 10], [40, 50]]


def test_days_and_partitions_are_not_joined() -> None:
    assert runs([file(0, 1), file(10, 1, date="2026-11-22"), file(20, 1, partition=1)], 100) == []


def test_one_file_is_left_alone() -> None:
    assert runs([file(0, 1)], 100) == []


def test_checksums_are_joined_in_any_order() -> None:
    assert joined(["0f", "f0", "01"]) == joined(["01", "f0", "0f"]) == f"{0xFE:016x}"


def test_names_and_paths() -> None:
    assert name_of(file(5, 1), 3) == (
        "topic=orders/date=2026-11-21/p00000-00000000000000000005-00000000000000000014-c00000003.parquet"
    )
    assert path_of("file:///lake/a%20b/x.parquet") == Path("/lake/a b/x.parquet")


def test_lost_records_are_counted_and_named() -> None:
    following = {("a", 0): 10, ("a", 1): 10, ("gone", 0): 5}
    lost, news = loss(following, {("a", 0): Extent(Offset(12), Offset(20)), ("a", 1): Extent(Offset(0), Offset(10))})
    assert (lost, news) == (2, "2 records were deleted before they were archived: a-0 from 10 to 11")


def test_a_log_that_ends_earlier_is_another_log() -> None:
    with pytest.raises(PipelineError, match="a-0 ends at offset 3, but was archived to 10: it is another log"):
        loss({("a", 0): 10}, {("a", 0): Extent(Offset(0), Offset(3))})


def test_next_offsets_are_those_of_the_last_batch_that_is_done(tmp_path: Path) -> None:
    assert next_offsets(tmp_path) == {}
    for number, offset in ((9, 50), (10, 70), (11, 90)):
        (tmp_path / "offsets").mkdir(exist_ok=True)
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"a":{{"0":{offset}}}}}')
    (tmp_path / "commits").mkdir()
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert next_offsets(tmp_path) == {("a", 0): 70}
    (tmp_path / "offsets" / "10").write_text("v1")
    with pytest.raises(PipelineError, match="is not the checkpoint of an archive"):
        next_offsets(tmp_path)


def test_topics_or_a_pattern() -> None:
    with pytest.raises(PipelineError, match="either topics or a pattern"):
        ArchiveOptions(bootstrap="", path=Path())
    with pytest.raises(PipelineError, match="either topics or a pattern"):
        ArchiveOptions(bootstrap="", path=Path(), topics=("a",), pattern="b")


def test_a_selection_leaves_out_files_that_cannot_match() -> None:
    chosen = Selection(from_offset=Offset(10), to_offset=Offset(20), from_ms=150, to_ms=160)
    assert chosen.has(Offset(10), timestamp_ms=150)
    assert not any(
        (
            chosen.has(Offset(9), timestamp_ms=150),
            chosen.has(Offset(20), timestamp_ms=150),
            chosen.has(Offset(10), timestamp_ms=149),
            chosen.has(Offset(10), timestamp_ms=160),
        )
    )
    assert chosen.may_have(Offset(0), last=Offset(10), first_ms=100, last_ms=150)
    assert not any(
        (
            chosen.may_have(Offset(0), last=Offset(9), first_ms=100, last_ms=200),
            chosen.may_have(Offset(20), last=Offset(30), first_ms=100, last_ms=200),
            chosen.may_have(Offset(0), last=Offset(30), first_ms=0, last_ms=149),
            chosen.may_have(Offset(0), last=Offset(30), first_ms=160, last_ms=170),
        )
    )
    assert Selection().has(Offset(0), timestamp_ms=-1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Job aborted\n  pybroker.spark.errors.PipelineError: no such thing\n\tat x", "no such thing"),
        (
            "Job aborted\nCaused by: org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms\n\tat y",
            "TimeoutException: Timeout of 60000ms",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03", "[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"),
        ("", "RuntimeError"),
    ],
)
def test_long_exceptions_come_down_to_a_line(text: str, line: str) -> None:
    assert explain(RuntimeError(text)) == line


def test_a_cluster_that_is_away_is_known_by_its_exceptions() -> None:
    assert AWAY.search("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment")
    assert not AWAY.search("KafkaIllegalStateException: Partition t-0's offset was changed")


def test_offsets_that_were_read_are_not_left_even_if_they_hold_no_visible_record() -> None:
    extents = {
        ("a", 0): Extent(Offset(0), Offset(18)),
        ("a", 1): Extent(Offset(17), Offset(18)),
        ("a", 2): Extent(Offset(0), Offset(6)),
    }
    assert left({("a", 0): 18, ("a", 1): 18}, extents) == 6
    assert left({}, extents) == 18 + 1 + 6
    assert left({("a", 0): 3, ("a", 1): 3, ("a", 2): 9}, extents) == 15 + 1
