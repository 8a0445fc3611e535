"""Times the turns of an event loop: native where that part was built, else Python; `pybroker/native.py` chooses.

The contract is in `_watch_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.sharing.turns import _watch_python
from pybroker.sharing.turns._watch_python import Entry, Watch

__all__ = ["IS_NATIVE", "Entry", "Watch"]

IS_NATIVE: Final = choose(_watch_python, globals())
