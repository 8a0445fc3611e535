"""The counters of a listener: native where they were built, else Python; `pybroker/native.py` chooses.

The contract is in `_counters_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.network import _counters_python
from pybroker.network._counters_python import ListenerCounters

__all__ = ["IS_NATIVE", "ListenerCounters"]

IS_NATIVE: Final = choose(_counters_python, globals())
