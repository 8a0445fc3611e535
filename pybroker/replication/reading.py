"""Reads usual partitions of a fetch, natively if that was built.

`pybroker/native.py` chooses; the contract of the native functions is in `_reading_python.py`. Call them through this
module (`reading.read_all_usual(...)`), so that the tests can run on both.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.replication import _reading_python
from pybroker.replication._reading_python import read_all_usual, read_usual, wanted_partitions

__all__ = ["IS_NATIVE", "read_all_usual", "read_usual", "wanted_partitions"]

IS_NATIVE: Final = choose(_reading_python, globals())
