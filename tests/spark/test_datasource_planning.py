"""Filters reach only segments and batches that can match; a stream advances without loss or repetition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.log.checkpoints import checkpoint
from pybroker.log.checkpoints.offset_checkpoint import OffsetCheckpoint, StoredOffset
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.indexes.time_index import ENTRY
from pybroker.model import Offset, TopicId, TopicPartition
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_batch
from pybroker.spark.datasource.filters import Constraints
from pybroker.spark.datasource.plan import SegmentRange
from pybroker.spark.datasource.stream import StreamPlanner
from pybroker.spark.errors import PipelineError
from testing.scenes.data_directories import START_MS, TP, DataDirectory, lay_down, parsed, plan, read_all

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def constraints(*filters: tuple[str, str, object]) -> Constraints:
    found = Constraints()
    for one in filters:
        found.push(*one)
    return found


def ten_segments(path: Path) -> tuple[DataDirectory, list[Record]]:
    """Append batches of 3 records, each a minute younger than the batch before."""
    data = DataDirectory(path, segment_bytes=1200, index_interval_bytes=100)
    records = [record for i in range(40) for record in data.append(3, size=60, timestamp=START_MS + i * 60_000)]
    data.checkpoint()
    assert len(data.log().segments) >= 8
    return data, records


def bases(ranges: list[SegmentRange]) -> list[int]:
    return [one.segment.base_offset for one in ranges]


# --- pushing filters down


def test_offsets_choose_segments_by_name(tmp_path: Path) -> None:
    data, records = ten_segments(tmp_path)
    all_bases = bases(plan(data))
    only = constraints(("offset", "GreaterThanOrEqual", 50), ("offset", "LessThan", 52))
    (one,) = plan(data, only)
    assert one.segment.base_offset == max(base for base in all_bases if base <= 50)
    assert one.position > 0  # and the position by the index
    assert data.read(only) == records[50:52]
    assert plan(data, constraints(("offset", "GreaterThan", 5), ("offset", "LessThan", 3))) == []


def test_times_choose_segments_by_the_time_index(tmp_path: Path) -> None:
    data, records = ten_segments(tmp_path)
    since = START_MS + 26 * 60_000
    only = constraints(("timestamp", "GreaterThanOrEqual", EPOCH + timedelta(milliseconds=since)))
    ranges = plan(data, only)
    assert 0 < len(ranges) < len(plan(data))
    assert bases(ranges) == bases(plan(data))[-len(ranges) :]
    assert ranges[0].position > 0 or ranges[0].start_offset > ranges[0].segment.base_offset
    assert data.read(only) == [record for record in records if record.timestamp >= since]
    beyond = constraints(("timestamp", "GreaterThan", EPOCH + timedelta(milliseconds=START_MS + 10**9)))
    assert len(plan(data, beyond)) == 1  # no index knows the end of the last segment
    assert data.read(beyond) == []


def test_options_narrow_as_filters_do(tmp_path: Path) -> None:
    """The options exist because Spark's filter pushdown has a flaw."""
    data, records = ten_segments(tmp_path)
    other = data.append(2, tp=TopicPartition("events", 7))
    data.checkpoint()
    assert data.read(partitions="7") == other
    assert data.read(partitions="0, 7") == records + other
    assert data.read(partitions="3") == []
    since = START_MS + 26 * 60_000
    ranges = plan(data, startingTimestamp=str(since), partitions="0")
    assert 0 < len(ranges) < len(plan(data, partitions="0"))
    assert all(
        (one.min_timestamp, one.max_timestamp) == (since, since + 9)
        for one in plan(data, startingTimestamp=str(since), endingTimestamp=str(since + 10))
    )


def test_a_time_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    data, records = ten_segments(tmp_path)
    first = Path(data.log().segments[0].time_index.path)
    entries = first.read_bytes()
    first.write_bytes(ENTRY.pack(START_MS - 1000, 2))
    only = constraints(("timestamp", "GreaterThanOrEqual", EPOCH + timedelta(milliseconds=START_MS)))
    assert data.read(only) == records
    first.write_bytes(entries + bytes(12 * 1000))  # preallocated, like Kafka's active indexes
    assert data.read(only) == records


def test_an_offset_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    data, records = ten_segments(tmp_path)
    for segment in list(data.log().segments)[:3]:
        path = Path(segment.offset_index.path)
        path.write_bytes(bytes(3 if byte % 8 == 7 else value for byte, value in enumerate(path.read_bytes())))
    only = constraints(("offset", "GreaterThanOrEqual", 10))
    assert data.read(only) == records[10:]
    assert data.read(only, splitBytes="200") == records[10:]
    Path(data.log().segments[1].offset_index.path).unlink()
    assert data.read(only) == records[10:]


def test_times_that_the_broker_set_bound_batches_from_above(tmp_path: Path) -> None:
    parts = [
        bytes(
            build_batch(
                [Record(Offset(i), START_MS, None, b"v")],
                timestamp_type=TimestampType.LOG_APPEND_TIME,
                log_append_time_ms=START_MS + i * 1000,
            )
        )
        for i in range(5)
    ]
    lay_down(tmp_path, {0: b"".join(parts)}, high_watermark=5)
    only = constraints(("timestamp", "LessThan", EPOCH + timedelta(milliseconds=START_MS + 3000)))
    assert [record.offset for record in read_all(plan(tmp_path, only), 31, parsed(tmp_path))] == [0, 1, 2]


def test_a_start_offset_of_an_older_topic_with_the_same_name_hides_nothing(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = data.append(5)
    data.checkpoint()
    path = f"{tmp_path}/{checkpoint.LOG_START_OFFSET_FILE}"
    OffsetCheckpoint(Filesystem(), path).writer({TP: StoredOffset(TopicId(b"an older topic\0\0"), Offset(3))})()
    assert data.read() == records
    OffsetCheckpoint(Filesystem(), path).writer({TP: StoredOffset(data.log().topic_id, Offset(3))})()
    assert data.read() == records[3:]


def test_topics_and_partitions_are_chosen_by_name(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = {TopicPartition(*tp): data.append(2, tp=TopicPartition(*tp)) for tp in (("a", 0), ("a", 1), ("ab", 0), ("b", 10))}
    data.checkpoint()
    cases: list[tuple[tuple[str, str, Any], list[tuple[str, int]]]] = [
        (("topic", "EqualTo", "a"), [("a", 0), ("a", 1)]),
        (("topic", "NotEqualTo", "a"), [("ab", 0), ("b", 10)]),
        (("topic", "In", ("a", "b")), [("a", 0), ("a", 1), ("b", 10)]),
        (("topic", "NotIn", ("a", "b")), [("ab", 0)]),
        (("topic", "StringStartsWith", "a"), [("a", 0), ("a", 1), ("ab", 0)]),
        (("topic", "StringEndsWith", "b"), [("ab", 0), ("b", 10)]),
        (("topic", "StringContains", "b"), [("ab", 0), ("b", 10)]),
        (("topic", "GreaterThan", "a"), [("ab", 0), ("b", 10)]),
        (("topic", "IsNull", None), []),
        (("topic", "IsNotNull", None), [(tp.topic, tp.partition) for tp in records]),
        (("partition", "EqualTo", 0), [("a", 0), ("ab", 0)]),
        (("partition", "GreaterThanOrEqual", 1), [("a", 1), ("b", 10)]),
        (("partition", "LessThan", 1), [("a", 0), ("ab", 0)]),
        (("partition", "In", [0, 10]), [("a", 0), ("ab", 0), ("b", 10)]),
    ]
    for one, expected in cases:
        only = Constraints()
        assert only.push(*one), one
        assert data.read(only) == [record for tp in expected for record in records[TopicPartition(*tp)]], one


@given(pushed=st.lists(st.tuples(st.sampled_from(COMPARISONS), st.integers(-3, 25)), max_size=4), offset=st.integers(0, 22))
def test_offset_filters_mean_what_they_express(pushed: list[tuple[str, int]], offset: int) -> None:
    only = Constraints()
    for kind, value in pushed:
        assert only.push("offset", kind, value)
    assert (only.first_offset <= offset < only.end_offset) == all(holds(kind, offset, value) for kind, value in pushed)


@given(pushed=st.lists(st.tuples(st.sampled_from(COMPARISONS), st.integers(-5000, 25_000)), max_size=3), ms=st.integers(-5, 25))
def test_time_filters_lose_no_match(pushed: list[tuple[str, int]], ms: int) -> None:
    """The filters count microseconds, the log milliseconds."""
    only = Constraints()
    for kind, micros in pushed:
        assert not only.push("timestamp", kind, EPOCH + timedelta(microseconds=micros))  # Spark filters again
    assert (only.min_timestamp <= ms <= only.max_timestamp) == all(holds(kind, ms * 1000, value) for kind, value in pushed)


def holds(kind: str, one: int, other: int) -> bool:
    return {
        "EqualTo": one == other,
        "GreaterThan": one > other,
        "GreaterThanOrEqual": one >= other,
        "LessThan": one < other,
        "LessThanOrEqual": one <= other,
    }[kind]


@pytest.mark.parametrize(
    "one",
    [
        ("offset", "In", (3, 5)),
        ("offset", "NotEqualTo", 3),
        ("offset", "EqualTo", 3.5),
        ("offset", "IsNull", None),
        ("value", "EqualTo", b"v"),
        ("topic", "EqualTo", 3),
        ("partition", "EqualTo", "a"),
        ("partition", "StringContains", "a"),
        ("timestamp", "IsNotNull", None),
        ("timestamp", "EqualTo", "2020-01-01"),
    ],
)
def test_what_is_not_decided_here_is_left_to_spark(one: tuple[str, str, Any]) -> None:
    assert not Constraints().push(*one)


def test_offsets_in_a_list_bound_what_is_read(tmp_path: Path) -> None:
    data, records = ten_segments(tmp_path)
    assert data.read(constraints(("offset", "In", (30, 33)))) == records[30:34]


def test_segments_are_split_where_the_index_knows_a_batch(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, index_interval_bytes=300)
    records = [record for _ in range(100) for record in data.append(3, size=60)]
    data.checkpoint()
    ranges = plan(data, splitBytes="3000")
    size = data.log().size
    assert size // 3000 <= len(ranges) <= size // 3000 + 1
    assert [one.start_offset for one in ranges[1:]] == [one.end_offset for one in ranges[:-1]]
    assert all(one.position > 0 for one in ranges[1:])
    assert data.read(splitBytes="3000") == records


# --- streams


def follow(
    planner: StreamPlanner, data: DataDirectory, start: dict[str, Any], limit: int | None = None
) -> tuple[dict[str, Any], list[Record]]:
    end = planner.latest(start, limit)
    return end, list(read_all(planner.plan(start, end), 31, parsed(data)))


def test_a_stream_takes_what_was_added(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, segment_bytes=1000)
    expected = data.append(3)
    data.checkpoint()
    planner = StreamPlanner(parsed(data))
    start = planner.initial()
    assert start == {"events": {"0": 0}}
    end, rows = follow(planner, data, start)
    assert (end, rows) == ({"events": {"0": 3}}, expected)
    assert follow(planner, data, end) == (end, [])
    more = [record for _ in range(10) for record in data.append(5, size=100)]
    other = data.append(2, tp=TopicPartition("events", 1))  # a new partition begins at its start
    data.checkpoint()
    end, rows = follow(planner, data, end)
    assert (end, rows) == ({"events": {"0": 53, "1": 2}}, more + other)
    assert planner.ends() == end


def test_a_stream_starts_at_the_given_offsets(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.append(5)
    data.checkpoint()
    for starting, offset in (("earliest", 0), ("latest", 5), ('{"events": {"0": 2}}', 2)):
        assert StreamPlanner(parsed(data, startingOffsets=starting)).initial() == {"events": {"0": offset}}


def test_a_limit_is_shared_by_the_partitions(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    other = TopicPartition("events", 1)
    expected = {TP: data.append(30), other: data.append(10, tp=other)}
    data.checkpoint()
    planner, start = StreamPlanner(parsed(data)), {"events": {"0": 0, "1": 0}}
    found: list[Record] = []
    for _ in range(10):
        end, rows = follow(planner, data, start, 8)
        assert len(rows) <= 8
        found += rows
        if start == end:
            break
        assert rows
        start = end
    assert sorted(found) == sorted(expected[TP] + expected[other])
    assert [record for record in found if record.key and record.key.startswith(b"events-0")] == expected[TP]


def test_available_now_ends(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    expected = data.append(5)
    data.checkpoint()
    planner = StreamPlanner(parsed(data))
    planner.freeze()
    data.append(5)
    data.append(5, tp=TopicPartition("events", 1))
    data.checkpoint()
    end, rows = follow(planner, data, {"events": {"0": 0}})
    assert (end, rows) == ({"events": {"0": 5}}, expected)
    assert planner.latest(end, None) == end


def test_a_stream_waits_for_transactions(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path, segment_bytes=1000)
    expected = data.append(2)
    data.checkpoint()
    planner = StreamPlanner(parsed(data))
    end, rows = follow(planner, data, planner.initial())
    for round_ in range(10):
        made: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0, "base_sequence": round_ * 2, "is_transactional": True}
        inside = data.append(2, size=200, **made)
        outside = data.append(1)
        data.checkpoint()
        assert follow(planner, data, end) == (end, [])
        data.end_transaction(4, commit=round_ % 2 == 0)
        data.checkpoint()
        end, more = follow(planner, data, end)
        rows += more
        expected += (inside if round_ % 2 == 0 else []) + outside
    assert rows == expected


def test_a_stream_reports_what_it_lost(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    records = data.append(20)
    data.log().increment_log_start_offset(Offset(12), high_watermark=Offset(20))
    data.checkpoint()
    start = {"events": {"0": 4}}
    with pytest.raises(PipelineError, match="8 offsets of events-0, from 4 to 11, are gone"):
        follow(StreamPlanner(parsed(data)), data, start)
    assert follow(StreamPlanner(parsed(data, failOnDataLoss="false")), data, start)[1] == records[12:]
    with pytest.raises(PipelineError, match="from 20 to 29, are gone: the log ends earlier"):
        StreamPlanner(parsed(data)).latest({"events": {"0": 30}}, None)
    with pytest.raises(PipelineError, match="gone: the topic was deleted"):
        StreamPlanner(parsed(data)).latest({"events": {"0": 4}, "other": {"0": 3}}, None)
    with pytest.raises(PipelineError, match="gone: the topic was deleted"):
        list(StreamPlanner(parsed(data)).plan({}, {"other": {"0": 3}}))


def test_an_older_checkpoint_does_not_move_a_stream_back(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    data.append(20)
    data.checkpoint({TP: 5})
    assert StreamPlanner(parsed(data)).latest({"events": {"0": 9}}, None) == {"events": {"0": 9}}
