"""Benchmarks, run from the root of a clone as `python -m benchmarks.NAME`; README.md beside this lists them."""

from __future__ import annotations

import sys
from types import TracebackType


def _in_a_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say what to install where a module is missing; any other exception is a traceback as ever."""
    if isinstance(error, ModuleNotFoundError):
        install = f"{sys.executable} -m pip install --editable '.[test]'"
        print(f"Error: {error}; install what the benchmarks need with: {install}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # a benchmark is being started, not imported by a test
    sys.excepthook = _in_a_line
