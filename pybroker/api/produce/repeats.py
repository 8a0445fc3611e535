"""The values that are kept of a request for those that are like it: native where that part was built, else Python.

The contract is in `_repeats_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.api.produce import _repeats_python
from pybroker.api.produce._repeats_python import Repeated
from pybroker.native import choose

__all__ = ["IS_NATIVE", "Repeated"]

IS_NATIVE: Final = choose(_repeats_python, globals())
