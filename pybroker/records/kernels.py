"""The functions that process every record: native where they were built, otherwise Python; `pybroker/native.py` chooses.

Their contract is in `_kernels_python.py`. Call them through this module (`kernels.scan_records(...)`), so that the
tests can run everything on both.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.records import _kernels_python
from pybroker.records._kernels_python import (
    accept_batch,
    accept_copies,
    crc32,
    is_of_transaction,
    is_only_at_end,
    note_keys,
    record_section,
    retain_records,
    scan_records,
    take_records,
)

__all__ = [
    "IS_NATIVE",
    "accept_batch",
    "accept_copies",
    "crc32",
    "is_of_transaction",
    "is_only_at_end",
    "note_keys",
    "record_section",
    "retain_records",
    "scan_records",
    "take_records",
]

IS_NATIVE: Final = choose(_kernels_python, globals())
