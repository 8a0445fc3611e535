"""The loops over the partitions of a commit, where they are of the usual form, and over the letters of a name; native if that was
built.

`pybroker/native.py` chooses; the contract is in `_offset_loops_python.py`. Call them through this module
(`offset_loops.usual_offsets(...)`), so that the tests can run on both.
"""

from __future__ import annotations

from typing import Final

from pybroker.coordinator import _offset_loops_python
from pybroker.coordinator._offset_loops_python import java_hash, usual_ends, usual_offsets
from pybroker.native import choose

__all__ = ["IS_NATIVE", "java_hash", "usual_ends", "usual_offsets"]

IS_NATIVE: Final = choose(_offset_loops_python, globals())
