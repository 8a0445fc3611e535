"""The counts of requests, times and records: native where that part was built, else Python; `pybroker/native.py` chooses.

The contract is in `_counts_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.metrics import _counts_python
from pybroker.metrics._counts_python import NO_ERROR, Counts, RequestCounts, TopicCounts, observe_request
from pybroker.native import choose

__all__ = ["IS_NATIVE", "NO_ERROR", "Counts", "RequestCounts", "TopicCounts", "observe_request"]

IS_NATIVE: Final = choose(_counts_python, globals())
