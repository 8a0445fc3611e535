"""The counts and pages of the report, without Spark, brokers and pictures."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.model import FIRST_OFFSET, Offset
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.aborted import AbortedTransactions
from pybroker.records.errors import InvalidRecordError
from pybroker.spark.errors import PipelineError
from pybroker.spark.report.job import ReportOptions, _files
from pybroker.spark.report.keys import KeySummary, gini
from pybroker.spark.report.page import written
from pybroker.spark.report.plan import STRETCHES, Extent, Wanted, extent, ranges
from pybroker.spark.report.reading import Part, read
from pybroker.spark.report.summary import PartitionReport, Report, TopicReport, duration_ms, moment, shown, timeline
from pybroker.spark.report.tally import BUCKETS_MAX, WIDTHS_MS, Codec, Histogram, Numbers, Series, Tally
from pybroker.spark.wire.client import COMMITTED, EARLIEST, UNCOMMITTED, Fetched
from pybroker.spark.wire.errors import BrokerError

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = Wanted()


# --- Histograms -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("greatest", [1, 511, 512, 5000, 10**7, 1 << 62])
def test_percentiles_are_those_of_the_sorted_numbers(greatest: int) -> None:
    chance = random.Random(greatest)
    values = [chance.randint(0, greatest) for _ in range(1000)]
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    values.sort()
    assert (histogram.number, histogram.sum, histogram.least, histogram.greatest) == (1000, sum(values), values[0], values[-1])
    for percent in (0, 1, 50, 90, 99, 99.9, 100):
        exact = values[max(1, ceil(10 * percent)) - 1]
        found = histogram.percentile(percent)
        assert found is not None
        assert found == exact if exact < 512 else exact * 0.996 <= found <= exact


def test_histograms_merge_to_the_one_of_all() -> None:
    parts, whole = [Histogram(), Histogram()], Histogram()
    for number in range(3000):
        parts[number % 2].add(number * number, 3)
        whole.add(number * number, 3)
    parts[0].merge(parts[1])
    parts[0].merge(Histogram())
    assert parts[0] == whole


def test_an_empty_histogram_has_no_percentiles() -> None:
    assert Histogram().to_json() == dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99.9", "max")) | {"count": 0, "sum": 0}


# --- Times ----------------------------------------------------------------------------------------------------------------------


def test_each_width_divides_the_next() -> None:
    assert all(not wide % narrow for narrow, wide in itertools.pairwise(WIDTHS_MS))


def test_series_of_different_widths_merge_without_loss() -> None:
    fine, coarse = Series(), Series(step=WIDTHS_MS.index(60_000))
    for second in range(120):
        fine.add(second * 1000, 1, 10)
        coarse.add(second * 1000, 1, 10)
    fine.merge(coarse)
    assert (fine.width_ms, fine.buckets) == (60_000, {0: (120, 1200), 60_000: (120, 1200)})


def test_a_series_becomes_coarser_rather_than_long() -> None:
    parts = [Series(), Series()]
    for number in range(2 * BUCKETS_MAX):
        parts[number % 2].add(number * 1000, 1, 1)
    parts[0].merge(parts[1])
    assert parts[0].width_ms == 5000
    assert sum(records for records, _ in parts[0].buckets.values()) == 2 * BUCKETS_MAX


def test_a_timeline_has_empty_buckets_too() -> None:
    series = Series()
    series.add(1000, 1, 5)
    series.add(1400, 2, 7)
    line = timeline(series)
    assert line is not None
    assert (line.width_ms, line.start_ms, line.records, line.sizes, line.outside) == (
        100,
        1000,
        (1, 0, 0, 0, 2),
        (5, 0, 0, 0, 7),
        0,
    )


def test_a_timeline_leaves_out_few_strange_times_and_counts_them() -> None:
    series = Series()
    for number in range(10_000):
        series.add(1_700_000_000_000 + number, 1, 1)
    series.add(0, 1, 1)
    series.add(1 << 62, 1, 1)
    line = timeline(series)
    assert line is not None
    assert (line.width_ms, len(line.records), sum(line.records), line.outside) == (100, 100, 10_000, 2)


def test_a_timeline_of_a_year_has_days() -> None:
    series = Series(step=WIDTHS_MS.index(3_600_000))
    for hour in range(365 * 24):
        series.add(hour * 3_600_000, 1, 1)
    line = timeline(series)
    assert line is not None
    assert (line.width_ms, sum(line.records)) == (7 * 86_400_000, 365 * 24)
    assert timeline(Series()) is None


# --- Offsets to read ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EVERYTHING, ((10, 110),)),
        (Wanted(from_offset=Offset(50)), ((50, 110),)),
        (Wanted(from_offset=Offset(5), to_offset=Offset(20)), ((10, 20),)),
        (Wanted(last=7), ((103, 110),)),
        (Wanted(last=1000), ((10, 110),)),
        (Wanted(to_offset=Offset(20), last=7), ((13, 20),)),
        (Wanted(from_offset=Offset(110)), ()),
        (Wanted(to_offset=Offset(10)), ()),
        (Wanted(sample=100), ((10, 110),)),
        (Wanted(sample=3), ((10, 11), (43, 44), (76, 77))),
    ],
)
def test_ranges(wanted: Wanted, expected: tuple[tuple[int, int], ...]) -> None:
    assert ranges(Offset(10), last=Offset(110), wanted=wanted) == expected


@pytest.mark.parametrize("size", [20, 21, 999, 5000, 9999])
def test_a_sample_is_of_its_size_and_its_stretches_do_not_overlap(size: int) -> None:
    found = ranges(Offset(3), last=Offset(10_003), wanted=Wanted(sample=size))
    assert len(found) == STRETCHES
    assert sum(end - first for first, end in found) == size
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))
    assert found[0][0] == 3
    assert found[-1][1] <= 10_003


class Offsets:
    """A client that knows a log from 100 to 200, with a record in each millisecond from time 1000."""

    def list_offset(self, topic: str, partition: int, timestamp: int, isolation: int = UNCOMMITTED) -> int:
        if timestamp < 0:
            return 100 if timestamp == EARLIEST else 200 - 20 * isolation
        offset = max(100, timestamp - 900)
        return offset if offset < 200 else -1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EVERYTHING, ((100, 200),)),
        (Wanted(from_ms=1050), ((150, 200),)),
        (Wanted(from_ms=1050, to_ms=1060), ((150, 160),)),
        (Wanted(to_ms=5000, last=5), ((195, 200),)),
        (Wanted(from_ms=5000), ()),
        (Wanted(to_ms=500), ()),
    ],
)
def test_times_become_offsets(wanted: Wanted, expected: tuple[tuple[Offset, Offset], ...]) -> None:
    client: Any = Offsets()
    assert extent(client, "t", 0, wanted) == Extent(Offset(100), Offset(200), expected, stable=Offset(180))


# --- Reading --------------------------------------------------------------------------------------------------------------------


class Script:
    """A client and a counter at once: each response is bytes and the next offset, or an error."""

    def __init__(self, *responses: Any, start: int = 0) -> None:
        self.asked: list[Any] = []
        self.isolations: list[int] = []
        self.responses, self.start = list(responses), start

    def fetch(self, topic: str, partition: int, offset: int, *, max_bytes: int, isolation: int) -> Fetched:
        self.asked.append(offset)
        self.isolations.append(isolation)
        if isinstance(self.responses[0], BrokerError):
            raise self.responses.pop(0)
        high_watermark = Offset(7 if self.responses[0] == 7 else 100)
        return Fetched(memoryview(b"x" if self.responses[0] else b""), high_watermark, Offset(50), FIRST_OFFSET, ())

    def list_offset(self, topic: str, partition: int, timestamp: int) -> int:
        return self.start

    def add(self, data: memoryview, first: int, end: int, aborted: AbortedTransactions | None) -> int:
        following = self.responses.pop(0)
        if isinstance(following, Exception):
            raise following
        return following or first


PART = Part(
    bootstrap="b:1",
    topic="t",
    topic_id=b"",
    partition=0,
    extent=Extent(Offset(0), Offset(100), (), stable=Offset(50)),
    now_ms=0,
    keys_max=1,
    key_bytes_max=1,
    retry_s=0,
)
GONE = BrokerError("t-0", ErrorCode.OFFSET_OUT_OF_RANGE)


def reading(script: Any, first: int = 0, end: int = 100) -> int:
    return read(script, PART, script, first=Offset(first), end=Offset(end))


def test_reading_continues_until_the_end() -> None:
    script = Script(40, 100)
    assert reading(script) == 0
    assert script.asked == [0, 40]


def test_only_what_lies_before_the_first_open_transaction_is_read_as_committed() -> None:
    script = Script(40, 60, 100)
    assert reading(script) == 0
    assert script.asked == [0, 40, 60]
    assert script.isolations == [COMMITTED, COMMITTED, UNCOMMITTED]


def test_the_end_may_have_been_compacted_away() -> None:
    script = Script(40, 0, 70, 0)
    assert reading(script) == 0
    assert script.asked == [0, 40, 50, 70]
    script = Script(0)
    assert reading(script, end=40) == 0
    assert script.asked == [0]


def test_what_retention_took_meanwhile_is_counted() -> None:
    script = Script(40, GONE, 100, start=60)
    assert reading(script) == 20
    assert script.asked == [0, 40, 60]
    assert reading(Script(40, GONE, start=300)) == 60, "no more than was to be read"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (Script(GONE), "t-0 ends before offset 0, which it had: its log was truncated meanwhile"),
        (Script(InvalidRecordError("nonsense")), "t-0 at b:1 has damaged records at or after offset 0: .*nonsense"),
        (Script(BrokerError("t-0", ErrorCode.TOPIC_AUTHORIZATION_FAILED)), "t-0: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_what_cannot_be_read_is_reported(script: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=f"^{message}"):
        reading(script)


# --- The summary and the page ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"order-1", "order-1"),
        ("größe".encode(), "größe"),
        (b"", "(empty)"),
        (b"\x00\x01", "0x0001"),
        (b"\xff\xfe", "0xfffe"),
        (b"two\nlines", "0x74776f0a6c696e6573"),
        ("right\u202eleft".encode(), "0x7269676874e280ae6c656674"),
        (b"x" * 100, "x" * 48 + "… (100 bytes)"),
        (b"\xff" * 100, "0x" + "ff" * 23 + "… (100 bytes)"),
    ],
)
def test_keys_are_shown_on_one_line(key: bytes, expected: str) -> None:
    assert shown(key) == expected


def test_times_and_durations() -> None:
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert [moment(None), moment(1 << 62)] == ["", "4,611,686,018,427,387,904 ms"]
    assert [duration_ms(ms) for ms in (0, 100, 1500, 90_000, 7_200_000, 86_400_000)] == [
        "0 ms",
        "100 ms",
        "1.5 s",
        "1.5 min",
        "2 h",
        "1 d",
    ]


def test_gini() -> None:
    assert gini([5, 5, 5, 5]) == 0
    assert gini([0, 0, 0, 12]) == 0.75
    assert gini([1, 3]) == 0.25
    assert gini([]) == 0


def tally(records: int, time_ms: int = 1000) -> Tally:
    made = Tally(Numbers(offsets=records + 3, records=records, batches=2, size=1000, with_key=records - 1, control=1))
    made.codecs["zstd"] = Codec(2, records, 1000, 3000)
    made.magics[2] = 2
    made.header_names[b"<h>"] = 1
    made.series.add(time_ms, records, 100)
    made.idempotent.add(records)
    made.first_ms, made.last_ms, made.least_ms, made.greatest_ms = time_ms, time_ms, time_ms, time_ms + 2000
    return made


def topic(name: str, *tallies: Tally, keys: KeySummary | None = None) -> TopicReport:
    partitions = [
        PartitionReport(
            number,
            Extent(
                Offset(0), Offset(one.numbers.offsets), ((Offset(0), Offset(one.numbers.offsets)),), Offset(one.numbers.offsets)
            ),
            one,
        )
        for number, one in enumerate(tallies)
    ]
    return TopicReport.of(name, tuple(partitions), keys or KeySummary())


def report(*topics: TopicReport) -> Report:
    return Report("<b>:9092", "cluster", 1_700_000_000_000, EVERYTHING.in_words(), topics)


def test_a_topic_is_the_sum_of_its_partitions() -> None:
    found = topic("t", tally(10), tally(30, 9000))
    numbers = found.total.numbers
    assert (numbers.records, numbers.null_keys, numbers.missing, numbers.control) == (40, 2, 4, 2)
    assert (found.total.least_ms, found.total.greatest_ms, found.skew, found.is_whole) == (1000, 11_000, 1.5, True)
    assert found.total.codecs["zstd"].ratio == 3
    summary = found.to_json()
    assert (summary["records_per_s"], summary["idempotent_producers"], summary["magics"]) == (4.0, 2, {"2": 4})
    assert [one["records"] for one in summary["partitions"]] == [10, 30]
    assert summary["series"]["buckets"] == [[1000, 10, 100], [9000, 30, 100]]


def test_hostile_names_are_text_on_the_page() -> None:
    hostile = "<script>alert(1)</script>"
    keys = KeySummary(1, True, 0, [(hostile.encode(), 9)], 1.0, 0.0)
    page = written(report(topic(hostile, tally(10), keys=keys)), lambda _: [(b"png", hostile)])
    assert "<script" not in page
    assert "<h>" not in page
    assert "<b>:9092" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


def test_the_page_shows_what_was_not_looked_at_and_what_is_an_estimate() -> None:
    partial = tally(10)
    part = PartitionReport(0, Extent(Offset(0), Offset(5000), ((Offset(0), Offset(13)),), Offset(5000)), partial)
    keys = KeySummary(12_345, False, 3, [(b"often", 7)])
    page = written(report(TopicReport.of("t", (part,), keys)), lambda _: [])
    assert "Looked at 13 of 5,000 offsets." in page
    assert "Only a part of the logs was looked at" in page
    assert "About 12,345 different keys (estimated, ±2 %)" in page
    assert '<td>often</td><td class="number">7</td><td class="number">10</td>' in page
    whole = written(report(topic("t", tally(10))), lambda _: [])
    assert "Not all" not in whole


def test_large_rates_are_whole_numbers() -> None:
    found = tally(10)
    found.numbers.records, found.numbers.size = 5, 24_687_860
    page = written(report(topic("t", found)), lambda _: [])
    assert '<td class="number">2.5</td><td class="number">12,343,930</td>' in page


def test_a_topic_without_records_needs_no_pictures() -> None:
    page = written(report(topic("empty", Tally())), lambda _: pytest.fail("nothing to draw"))
    assert "No records." in page
    assert report(topic("empty", Tally())).to_json()["topics"][0]["records_per_s"] is None


def test_many_topics_are_in_the_table_only() -> None:
    drawn: list[str] = []
    topics = [topic(f"t{number}", tally(number + 2)) for number in range(53)]
    page = written(report(*topics), lambda one: drawn.append(one.name) or [])
    assert len(drawn) == 50
    assert "These topics are only in the table and in the summary" in page


# --- Options --------------------------------------------------------------------------------------------------------------------


def test_options_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    options = ReportOptions(bootstrap="b:1", path=tmp_path)
    with pytest.raises(PipelineError, match="not both"):
        replace(options, topics=("t",), pattern="t")
    for wanted in (Wanted(last=0), Wanted(sample=-1)):
        with pytest.raises(PipelineError, match="must be at least 1"):
            replace(options, wanted=wanted)


def test_the_page_is_a_file_or_in_a_folder(tmp_path: Path) -> None:
    assert _files(tmp_path / "a" / "b.html") == (tmp_path / "a" / "b.html", tmp_path / "a" / "b.json")
    assert _files(tmp_path / "c") == (tmp_path / "c" / "index.html", tmp_path / "c" / "summary.json")
    (tmp_path / "file").write_text("")
    for path, message in ((tmp_path / "file", "file is not a directory"), (tmp_path / "file" / "x.html", "file: ")):
        with pytest.raises(PipelineError, match=message):
            _files(path)
    (tmp_path / "d.html").mkdir()
    with pytest.raises(PipelineError, match="is a directory"):
        _files(tmp_path / "d.html")
