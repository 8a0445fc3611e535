"""Slices of a segment that a fetch gets: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_slices_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.log import _slices_python
from pybroker.log._slices_python import read_recent, slice_from
from pybroker.native import choose

__all__ = ["IS_NATIVE", "read_recent", "slice_from"]

IS_NATIVE: Final = choose(_slices_python, globals())
