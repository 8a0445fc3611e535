"""The picture of an audit, completeness by bucket and tier, and the page around it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from pybroker.pipeline import plots
from pybroker.pipeline.audit.folder import PAGE, PICTURE, TABLE
from pybroker.pipeline.audit.summary import COLUMNS, Summary
from pybroker.pipeline.html import Html, Section, embed, marked, page, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS_MAX: Final = 300
"""Of a picture: more buckets than that are drawn several in one."""
TOPICS_MAX: Final = 20
_WHITE: Final = "#ffffff"
_STATES: Final = (
    ("complete", plots.GOOD),
    ("lost", plots.BAD),
    ("doubled", "#cc79a7"),
    ("lost and doubled", "#000000"),
    ("open, or unknown", plots.UNKNOWN),
)
"""What a cell can be, and its colour."""


def write_report(spark: SparkSession, folder: Path, summary: Summary) -> None:
    """Draw what is in a result's folder, and write `completeness.png` and `index.html` to it."""
    cells = _cells(spark, folder, summary.header.bucket_s)
    everything = draw(cells, summary, "all topics" if len(summary.header.topics) > 1 else summary.header.topics[0])
    (folder / PICTURE).write_bytes(everything)
    sections = [Section("Completeness", [embed(everything, "Completeness by time bucket and tier"), _legend()])]
    topics = sorted({cell["topic"] for cell in cells}, key=lambda topic: (-_wrong(cells, topic), topic))
    if len(topics) > 1:
        parts: list[Html | str] = [
            embed(draw([cell for cell in cells if cell["topic"] == topic], summary, topic), f"Topic {topic}")
            for topic in topics[:TOPICS_MAX]
        ]
        if len(topics) > TOPICS_MAX:
            parts.append(f"{len(topics) - TOPICS_MAX} more topics are in the table.")
        sections.append(Section("Topics", parts))
    sections.append(Section("Tiers", [_totals(summary), *summary.warnings()]))
    if summary.findings:
        sections.append(Section("Lost and doubled", [_findings(summary)]))
    title = f"Audit of {', '.join(summary.header.topics[:5])}{' and more' if len(summary.header.topics) > 5 else ''}"
    verdict = marked("good" if summary.is_good else "bad", summary.verdict())
    (folder / PAGE).write_text(page(title, sections, introduction=[verdict]))


def draw(cells: Sequence[dict[str, Any]], summary: Summary, title: str) -> bytes:
    """A strip of buckets for each tier, over the number of records that were to be there."""
    from matplotlib.colors import BoundaryNorm, ListedColormap  # noqa: PLC0415 (an extra)
    from matplotlib.patches import Patch  # noqa: PLC0415

    tiers = list(summary.tiers)
    times = sorted({cell["time"] for cell in cells})
    drawn = plots.figure(11, 2.6 + 0.35 * len(tiers))
    strips, bars = drawn.subplots(2, 1, sharex=True, height_ratios=[max(1, len(tiers)) * 0.4, 1.2])
    strips.set_title(f"completeness of {plots.label(title)}", loc="left", fontsize=11)
    strips.set_yticks([at + 0.5 for at in range(len(tiers))], [plots.label(tier) for tier in tiers])
    strips.set_ylim(len(tiers), 0)
    plots.plain(bars, y_label="records expected")
    if times:
        width = dt.timedelta(milliseconds=cells[0]["width_ms"])
        first, count = times[0], round((times[-1] - times[0]) / width) + 1
        edges = [first + number * width for number in range(count + 1)]
        states = [[-1] * count for _ in tiers]
        expected = [0] * count
        for (tier, time), found in _merged(cells).items():
            at = round((time - first) / width)
            states[tiers.index(tier)][at] = _state(found)
            expected[at] = max(expected[at], found["expected"])
        colours = ListedColormap([_WHITE, *(colour for _, colour in _STATES)])
        norm = BoundaryNorm([at - 1.5 for at in range(len(_STATES) + 2)], colours.N)
        line = {"edgecolors": "white", "linewidth": 0.4} if count <= 120 else {}
        strips.pcolormesh(edges, range(len(tiers) + 1), states, cmap=colours, norm=norm, **line)
        bars.bar(edges[:-1], expected, width=width, align="edge", color=plots.COLOURS[0])
        plots.time_axis(bars)
    plots.thousands(bars)
    handles = [Patch(color=colour, label=name) for name, colour in _STATES]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return plots.png(drawn)


def _state(found: dict[str, int]) -> int:
    if found["lost"] and found["doubled"]:
        return 3
    if found["doubled"]:
        return 2
    if found["lost"]:
        return 1
    return 4 if found["pending"] or found["unknown"] or found["is_open"] else 0


def _cells(spark: SparkSession, folder: Path, bucket_s: int) -> list[dict[str, Any]]:
    """The table by topic, tier and time; times so wide that a picture can show them all."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    found = spark.read.parquet(str(folder / TABLE)).where("producer is not null")
    span = found.agg(f.expr("unix_seconds(min(bucket)) first"), f.expr("unix_seconds(max(bucket)) last")).head()
    if span is None or span["first"] is None:
        return []
    buckets = (span["last"] - span["first"]) // bucket_s + 1
    width = bucket_s * -(-buckets // COLUMNS_MAX)
    time = f.floor((f.unix_seconds("bucket") - span["first"]) / width) * width + span["first"]
    names = ("expected", "lost", "doubled", "pending", "unknown")
    rows = (
        found.groupBy("topic", "tier", time.alias("time"))
        .agg(*[f.sum(name).alias(name) for name in names], f.max((f.col("state") == "open").cast("int")).alias("is_open"))
        .collect()
    )
    return [{**row.asDict(), "time": dt.datetime.fromtimestamp(row.time, dt.UTC), "width_ms": width * 1000} for row in rows]


def _merged(cells: Sequence[dict[str, Any]]) -> dict[tuple[str, Any], dict[str, int]]:
    """The cells of all topics in one."""
    found: dict[tuple[str, Any], dict[str, int]] = {}
    for cell in cells:
        into = found.setdefault((cell["tier"], cell["time"]), dict.fromkeys(cell.keys() - {"topic", "tier", "time"}, 0))
        for name in into:
            into[name] += cell[name]
    return found


def _wrong(cells: Sequence[dict[str, Any]], topic: str) -> int:
    return sum(cell["lost"] + cell["doubled"] for cell in cells if cell["topic"] == topic)


def _legend() -> str:
    return (
        "Each cell is a time bucket (UTC). Open buckets are not judged yet; of unknown records it is not known whether they were "
        "ever acknowledged, as of a producer that was killed."
    )


def _totals(summary: Summary) -> Html:
    rows = []
    for tier, found in summary.tiers.items():
        bad = {
            name: marked("bad", found[name]) if name in {"lost", "doubled"} and found[name] else found[name] for name in COLUMNS
        }
        rows.append([tier, *bad.values()])
    return table(["tier", *(name.replace("_", " ") for name in COLUMNS)], rows)


def _findings(summary: Summary) -> Html:
    head = ["producer", "topic", "tier", "bucket", "lost", "doubled", "lost numbers", "doubled numbers"]
    rows = [
        [
            found.producer,
            found.topic,
            found.tier,
            found.bucket,
            found.lost,
            found.doubled,
            _words(found.lost_ranges),
            _words(found.doubled_ranges),
        ]
        for found in summary.findings
    ]
    return table(head, rows)


def _words(ranges: Sequence[str]) -> str:
    return ", ".join(ranges)
