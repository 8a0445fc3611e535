"""What every request counts its times with, native if it was built, else the pure twin.

`PYBROKER_PURE=1` in the environment forces the twin. The contract is in `_native.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metrics import _pure
from pybroker.native import extension

__all__ = ["IS_NATIVE", "Counts", "observe_request"]

if TYPE_CHECKING:
    from pybroker.metrics import _native as _kernels
else:
    _kernels = extension("pybroker.metrics._native") or _pure

IS_NATIVE = _kernels is not _pure

Counts = _kernels.Counts
observe_request = _kernels.observe_request
