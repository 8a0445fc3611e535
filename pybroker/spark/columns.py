"""Decodes records into Arrow columns: the builder, native where it was built and otherwise Python, and the flags of the
columns.

The contract is in `_columns_python.py`; `pybroker/native.py` chooses.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.spark import _columns_python
from pybroker.spark._columns_python import HEADERS, KEY, OFFSET, TIMESTAMP, VALUE, ColumnBuilder

__all__ = ["HEADERS", "IS_NATIVE", "KEY", "OFFSET", "TIMESTAMP", "VALUE", "ColumnBuilder"]

IS_NATIVE: Final = choose(_columns_python, globals())
