"""The way of an append through the leader: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_leading_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.replication import _leading_python
from pybroker.replication._leading_python import ACKS_ALL, LeaderAppends, LeaderState

__all__ = ["ACKS_ALL", "IS_NATIVE", "LeaderAppends", "LeaderState"]

IS_NATIVE: Final = choose(_leading_python, globals())
