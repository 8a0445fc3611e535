"""Records into Arrow columns: the builder, native if it was built, else its pure twin, and the names of the columns.

`PYBROKER_PURE=1` in the environment forces the twin. Its contract is in `_columns_native.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.native import extension
from pybroker.records import _columns_python

__all__ = ["HEADERS", "IS_NATIVE", "KEY", "OFFSET", "TIMESTAMP", "VALUE", "ColumnBuilder"]

if TYPE_CHECKING:
    from pybroker.records._columns_native import ColumnBuilder
else:
    ColumnBuilder = (extension("pybroker.records._columns_native") or _columns_python).ColumnBuilder

OFFSET: Final = 1
TIMESTAMP: Final = 2
KEY: Final = 4
VALUE: Final = 8
HEADERS: Final = 16

IS_NATIVE: Final = ColumnBuilder.__module__ != _columns_python.__name__
