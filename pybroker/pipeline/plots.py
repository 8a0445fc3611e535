"""Pictures of jobs, as PNG: figures that look alike, drawn without a screen and without pyplot's state.

Names of topics and producers are anything: `label` makes them text that matplotlib draws as it stands.
"""

from __future__ import annotations

import io
import logging
import warnings
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
"""Told apart by the colour-blind too (Okabe and Ito)."""
GOOD: Final = "#009e73"
BAD: Final = "#d55e00"
UNKNOWN: Final = "#bbbbbb"
_LABEL_LENGTH: Final = 40
_DPI: Final = 110


def figure(width: float = 10.0, height: float = 4.0) -> Figure:
    """An empty figure, in inches; `figure(...).subplots(rows, columns)` makes axes. Raises PipelineError."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise PipelineError(f"{error.name} is missing: pip install 'pybroker[spark]'") from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # says on stderr that it makes its cache of fonts
    return Figure(figsize=(width, height), layout="constrained")


def png(drawn: Figure) -> bytes:
    """The picture."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        drawn.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
    return out.getvalue()


def label(text: str) -> str:
    """A name for an axis or a legend: not too long, on one line, and nothing in it taken for mathematics or hidden."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    if len(shown) > _LABEL_LENGTH:
        shown = f"{shown[: _LABEL_LENGTH - 1]}…"
    shown = shown.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def plain(axes: Axes, *, title: str = "", y_label: str = "") -> Axes:
    """Axes with a light grid and no frame; `title` and `y_label` as they are."""
    axes.set_title(unmathematical(title), loc="left", fontsize=11)
    axes.set_ylabel(unmathematical(y_label))
    axes.grid(visible=True, alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def unmathematical(text: str) -> str:
    """Text of any length in which nothing is taken for mathematics."""
    return text.replace("$", r"\$")


def time_axis(axes: Axes) -> Axes:
    """The x axis has times: `datetime` in UTC."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 (an extra)

    locator: Any = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_xlabel("UTC")
    return axes


def thousands(axes: Axes) -> Axes:
    """The y axis has numbers from 0 up, with commas."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415 (an extra)

    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    return axes
