"""Draws the pictures of a topic."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark import plots
from pybroker.spark.report.summary import TopicReport, duration_ms, moment, shown, timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pybroker.spark.report.tally import Histogram

_PARTITIONS_MAX: Final = 100
_KEYS: Final = 10


def rates(topic: TopicReport) -> tuple[bytes, str] | None:
    """Draw records and bytes per second over time. Return the picture and its caption, or None when there are no times."""
    line = timeline(topic.total.series)
    if line is None:
        return None
    seconds, width = line.width_ms / 1000, dt.timedelta(milliseconds=line.width_ms)
    first = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=line.start_ms)
    edges = [first + at * width for at in range(len(line.records) + 1)]
    drawn = plots.figure(11, height=4.2)
    upper, lower = drawn.subplots(2, 1, sharex=True)
    for axes, values, name, colour in (
        (upper, line.records, "records/s", plots.COLOURS[0]),
        (lower, [size / 1e6 for size in line.sizes], "MB/s", plots.COLOURS[1]),
    ):
        plots.plain(axes, y_label=name)
        axes.stairs([value / seconds for value in values], edges, fill=True, color=colour)
        plots.thousands(axes)
    plots.time_axis(lower)
    caption = f"Records per second, and bytes of keys, values and headers per second, in buckets of {duration_ms(line.width_ms)}"
    if line.outside:
        outside = f"{line.outside:,} records with times far from these are left out"
        caption += f"; {outside} ({moment(topic.total.least_ms)} to {moment(topic.total.greatest_ms)})"
    return plots.png(drawn), caption


def distributions(topic: TopicReport) -> bytes:
    """Draw the distributions of sizes, batches, lateness, keys and partitions."""
    drawn = plots.figure(11, height=8.4)
    axes = drawn.subplots(3, 2)
    total = topic.total
    _distribution(axes[0][0], [("key", total.key_sizes), ("value", total.value_sizes)], "sizes of keys and values", "bytes")
    _distribution(axes[0][1], [("batches", total.batch_sizes)], "sizes of batches in the log", "bytes")
    _distribution(axes[1][0], [("batches", total.batch_records)], "records in a batch", "records")
    late = f"lateness of the {total.numbers.late:,} late records"
    _distribution(axes[1][1], [("records", total.lateness)], late, "ms behind the latest before it", is_zero_shown=False)
    _keys(axes[2][0], topic)
    _partitions(axes[2][1], topic)
    return plots.png(drawn)


def powers(histogram: Histogram) -> list[tuple[int, int]]:
    """Return how many numbers are in each of the ranges 0, 1, 2-3, 4-7, 8-15 and so on, as pairs of power and count.

    Power 0 is the range 0, power 1 is 1, power 2 is 2-3.
    """
    found: dict[int, int] = {}
    for step, count in histogram.counts.items():
        found[step.bit_length()] = found.get(step.bit_length(), 0) + count
    return sorted(found.items())


def _distribution(
    axes: Axes, histograms: list[tuple[str, Histogram]], title: str, unit: str, *, is_zero_shown: bool = True
) -> None:
    plots.plain(axes, title=title, y_label="count")
    axes.set_xlabel(unit)
    drawn = ((name, powers(histogram)) for name, histogram in histograms)
    found = [(name, [bar for bar in bars if bar[0] or is_zero_shown]) for name, bars in drawn]
    found = [(name, bars) for name, bars in found if bars]
    if not found:
        _nothing(axes)
        return
    highest = max(power for _, bars in found for power, _ in bars)
    lowest = min(power for _, bars in found for power, _ in bars)
    width = 0.9 / len(found)
    for place, (name, bars) in enumerate(found):
        places = [power - 0.45 + width * (place + 0.5) for power, _ in bars]
        axes.bar(places, [count for _, count in bars], width, label=name, color=plots.COLOURS[place])
    ticks = list(range(lowest, highest + 1, (highest - lowest) // 8 + 1))
    axes.set_xticks(ticks, [_power_label(power) for power in ticks])
    axes.set_xlim(lowest - 0.6, highest + 0.6)
    plots.thousands(axes)
    if len(found) > 1:
        axes.legend(frameon=False)


def _power_label(power: int) -> str:
    if power < 2:
        return str(power)
    value, units = 1 << (power - 1), ["", "k", "M", "G", "T", "P", "E"]
    while value >= 1024 and len(units) > 1:
        value //= 1024
        units.pop(0)
    return f"{value}{units[0]}+"


def _keys(axes: Axes, topic: TopicReport) -> None:
    top = topic.keys.top[:_KEYS]
    plots.plain(axes, title="most frequent keys", y_label="")
    if not top:
        _nothing(axes)
        return
    whole = topic.total.numbers.with_key
    axes.barh(range(len(top)), [100 * count / whole for _, count in top], color=plots.COLOURS[2])
    axes.set_yticks(range(len(top)), [plots.label(shown(key, 20)) for key, _ in top], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("% of the records with a key")


def _partitions(axes: Axes, topic: TopicReport) -> None:
    plots.plain(axes, title="records by partition", y_label="records")
    chosen: list[Any] = sorted(topic.partitions, key=lambda one: one.number)
    if len(chosen) > _PARTITIONS_MAX:
        chosen = sorted(chosen, key=lambda one: -one.tally.numbers.records)[:_PARTITIONS_MAX]
        axes.set_xlabel(f"the {_PARTITIONS_MAX} largest of {len(topic.partitions):,}")
        axes.set_xticks([])
    axes.bar(range(len(chosen)), [one.tally.numbers.records for one in chosen], color=plots.COLOURS[4])
    if len(chosen) <= 20:
        axes.set_xticks(range(len(chosen)), [str(one.number) for one in chosen])
    plots.thousands(axes)


def _nothing(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, color="#888888")
