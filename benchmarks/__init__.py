"""Benchmarks, run from the root of a clone as `python -m benchmarks.NAME`; README.md beside this lists them."""

from __future__ import annotations

import sys
from types import TracebackType


def _in_a_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what to install where a module is missing; any other exception gets its usual traceback."""
    if isinstance(error, ModuleNotFoundError):
        install = f"{sys.executable} -m pip install --editable '.[spark]' --group unit"
        print(f"Error: {error}; install what the benchmarks need with: {install}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # this run is a benchmark's own; no other module imports the package
    sys.excepthook = _in_a_line
