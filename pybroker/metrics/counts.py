"""What every request counts its times with, native if it was built, else the pure twin.

`PYBROKER_PURE=1` in the environment forces the twin. The contract is in `_counts_native.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metrics import _counts_python
from pybroker.native import extension

__all__ = ["IS_NATIVE", "Counts", "observe_request"]

if TYPE_CHECKING:
    from pybroker.metrics import _counts_native as _counts
else:
    _counts = extension("pybroker.metrics._counts_native") or _counts_python

IS_NATIVE = _counts is not _counts_python

Counts = _counts.Counts
observe_request = _counts.observe_request
