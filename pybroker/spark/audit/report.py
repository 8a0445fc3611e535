"""Draws the picture of an audit, the completeness by bucket and tier, and writes the page around it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from pybroker.spark import plots
from pybroker.spark.audit.folder import PAGE, PICTURE
from pybroker.spark.audit.summary import COLUMNS, Cell, Summary
from pybroker.spark.html import Html, Section, embed, marked, page, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPICS_MAX: Final = 20
_WHITE: Final = "#ffffff"
_STATES: Final = (
    ("complete", plots.GOOD),
    ("lost", plots.BAD),
    ("doubled", "#cc79a7"),
    ("lost and doubled", "#000000"),
    ("open, or unknown", plots.UNKNOWN),
)
"""The states of a cell, and their colours."""


def write_report(folder: Path, summary: Summary, cells: Sequence[Cell]) -> None:
    """Draw the result, and write `completeness.png` and `index.html` to its folder."""
    everything = draw(cells, summary, "all topics" if len(summary.header.topics) > 1 else summary.header.topics[0])
    (folder / PICTURE).write_bytes(everything)
    sections = [Section("Completeness", [embed(everything, "Completeness by time bucket and tier"), _legend()])]
    topics = sorted({cell.topic for cell in cells}, key=lambda topic: (-_wrong(cells, topic), topic))
    if len(topics) > 1:
        parts: list[Html | str] = [
            embed(draw([cell for cell in cells if cell.topic == topic], summary, topic), f"Topic {topic}")
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


def draw(cells: Sequence[Cell], summary: Summary, title: str) -> bytes:
    """Draw a strip of buckets for each tier, above the number of expected records."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    tiers = list(summary.tiers)
    times = sorted({cell.time for cell in cells})
    drawn = plots.figure(11, height=2.6 + 0.35 * len(tiers))
    strips, bars = drawn.subplots(2, 1, sharex=True, height_ratios=[max(1, len(tiers)) * 0.4, 1.2])
    strips.set_title(f"completeness of {plots.label(title)}", loc="left", fontsize=11)
    strips.set_yticks([at + 0.5 for at in range(len(tiers))], [plots.label(tier) for tier in tiers])
    strips.set_ylim(len(tiers), 0)
    plots.plain(bars, y_label="records expected")
    if times:
        width = dt.timedelta(seconds=cells[0].width_s)
        first, count = times[0], round((times[-1] - times[0]) / width) + 1
        edges = [first + number * width for number in range(count + 1)]
        states = [[-1] * count for _ in tiers]
        expected = [0] * count
        for (tier, time), (state, records) in _states(cells).items():
            at = round((time - first) / width)
            states[tiers.index(tier)][at] = state
            expected[at] = max(expected[at], records)
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


def _states(cells: Sequence[Cell]) -> dict[tuple[str, dt.datetime], tuple[int, int]]:
    """Return the state of each tier and time over all topics, and the number of expected records."""
    grouped: dict[tuple[str, dt.datetime], list[Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.tier, cell.time), []).append(cell)
    return {key: (_state(group), sum(cell.numbers["expected"] for cell in group)) for key, group in grouped.items()}


def _state(cells: Sequence[Cell]) -> int:
    """Return the index in _STATES."""
    lost, doubled, pending, unknown = (
        any(cell.numbers[name] for cell in cells) for name in ("lost", "doubled", "pending", "unknown")
    )
    if lost or doubled:
        return 3 if lost and doubled else 1 if lost else 2
    return 4 if pending or unknown or any(cell.is_open for cell in cells) else 0


def _wrong(cells: Sequence[Cell], topic: str) -> int:
    return sum(cell.numbers["lost"] + cell.numbers["doubled"] for cell in cells if cell.topic == topic)


def _legend() -> str:
    return (
        "Each cell is a time bucket (UTC). Open buckets are not judged yet. Unknown records are records that may never have been "
        "acknowledged, such as those of a producer that was killed."
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
