"""Pictures show names literally, whatever characters they have."""

from __future__ import annotations

import datetime as dt
import io
import warnings

import pytest

from pybroker.spark import plots

pytestmark = pytest.mark.spark


def test_a_figure_becomes_a_png_the_same_each_time() -> None:
    from matplotlib.image import imread  # noqa: PLC0415

    def draw() -> bytes:
        drawn = plots.figure(6, height=3)
        axes = plots.thousands(plots.time_axis(plots.plain(drawn.subplots(), title="costs $1 and $2", y_label="records")))
        start = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
        axes.plot([start, start + dt.timedelta(hours=1)], [0, 5000], label=plots.label("_hidden $x^$ \n 生产者"))
        legend = axes.legend()
        assert [text.get_text() for text in legend.get_texts()] == [r" _hidden \$x^\$ ? 生产者"]
        return plots.png(drawn)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = draw()
    assert made == draw()
    height, width, _ = imread(io.BytesIO(made)).shape
    assert (width, height) == (660, 330)


def test_a_long_label_is_cut() -> None:
    assert plots.label("x" * 41) == "x" * 39 + "…"
    assert plots.label("x" * 40) == "x" * 40
