"""The functions that convert every record between magic 2 and the older formats: native where they were built, otherwise Python.

Their contract is in `_conversions_python.py`. Call them through this module, as those of `kernels.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.records import _conversions_python
from pybroker.records._conversions_python import (
    down_convert_batches,
    down_convert_records,
    down_converted_size,
    up_convert_messages,
)

__all__ = ["IS_NATIVE", "down_convert_batches", "down_convert_records", "down_converted_size", "up_convert_messages"]

IS_NATIVE: Final = choose(_conversions_python, globals())
