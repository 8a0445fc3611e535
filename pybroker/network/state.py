"""The state that each request reads: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_state_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.network import _state_python
from pybroker.network._state_python import REPEATS_LEFT, AdmissionState, ContextState, PoolState

__all__ = ["IS_NATIVE", "REPEATS_LEFT", "AdmissionState", "ContextState", "PoolState"]

IS_NATIVE: Final = choose(_state_python, globals())
