"""The tail of a segment: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_tail_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.log import _tail_python
from pybroker.log._tail_python import (
    ENTRY_DUE,
    NO_TIMESTAMP,
    RECENT_BATCHES,
    RELATIVE_OFFSET_MAX,
    UNUSUAL,
    WRITTEN,
    SegmentTail,
)
from pybroker.native import choose

__all__ = [
    "ENTRY_DUE",
    "IS_NATIVE",
    "NO_TIMESTAMP",
    "RECENT_BATCHES",
    "RELATIVE_OFFSET_MAX",
    "UNUSUAL",
    "WRITTEN",
    "SegmentTail",
]

IS_NATIVE: Final = choose(_tail_python, globals())
