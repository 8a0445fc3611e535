"""The end of a log: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_end_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.log import _end_python
from pybroker.log._end_python import AppendSettings, LogEnd
from pybroker.native import choose

__all__ = ["IS_NATIVE", "AppendSettings", "LogEnd"]

IS_NATIVE: Final = choose(_end_python, globals())
