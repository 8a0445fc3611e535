"""The pictures of jobs, as PNG: figures in a common style, drawn without a screen and without pyplot's state.

Names of topics and producers may have any characters: `label` makes them text that matplotlib draws literally.
"""

from __future__ import annotations

import io
import logging
import warnings
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from pybroker import extras
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Colours that colour-blind people can distinguish too (Okabe and Ito)."""
GOOD: Final = "#009e73"
BAD: Final = "#d55e00"
UNKNOWN: Final = "#bbbbbb"
_LABEL_LENGTH: Final = 40
_DPI: Final = 110


def figure(width: float = 10.0, *, height: float = 4.0) -> Figure:
    """Make an empty figure with a size in inches; `figure(...).subplots(rows, columns)` makes axes. Raises PipelineError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PipelineError(f"{error.name} is missing: {extras.command('spark')}") from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # otherwise it reports on stderr that it builds its font cache
    return Figure(figsize=(width, height), layout="constrained")


def png(drawn: Figure) -> bytes:
    """Return the figure as a PNG."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        drawn.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
    return out.getvalue()


def label(text: str) -> str:
    """Make a name fit for an axis or a legend: short, on one line, with nothing that matplotlib takes for math or hides."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    if len(shown) > _LABEL_LENGTH:
        shown = f"{shown[: _LABEL_LENGTH - 1]}…"
    shown = shown.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def plain(axes: Axes, *, title: str = "", y_label: str = "") -> Axes:
    """Give axes a light grid, no frame, and these literal labels. Return the axes."""
    axes.set_title(unmathematical(title), loc="left", fontsize=11)
    axes.set_ylabel(unmathematical(y_label))
    axes.grid(visible=True, alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def unmathematical(text: str) -> str:
    """Return text of any length in which matplotlib takes nothing for math."""
    return text.replace("$", r"\$")


def time_axis(axes: Axes) -> Axes:
    """Make the x axis an axis of times: `datetime` in UTC. Return the axes."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator: Any = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_xlabel("UTC")
    return axes


def thousands(axes: Axes) -> Axes:
    """Make the y axis an axis of numbers from 0 up, with commas. Return the axes."""
    from matplotlib.ticker import FuncFormatter

    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    return axes
