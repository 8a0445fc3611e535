"""The functions that look into the records of one batch for what is rarely asked: by time, refused, renumbered.

Native where they were built, otherwise Python; `pybroker/native.py` chooses. Their contract is in `_sections_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.records import _sections_python
from pybroker.records._sections_python import (
    first_record,
    largest_timestamp,
    refused_records,
    renumbered,
    renumbered_size,
)

__all__ = ["IS_NATIVE", "first_record", "largest_timestamp", "refused_records", "renumbered", "renumbered_size"]

IS_NATIVE: Final = choose(_sections_python, globals())
