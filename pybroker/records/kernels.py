"""The functions that touch every record, native if they were built, else their pure twins.

`PYBROKER_PURE=1` in the environment forces the twins. Call them through this module (`kernels.scan_records(...)`), so that
the tests can run everything on both. Their contract is in `_kernels_native.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.native import extension
from pybroker.records import _kernels_python

__all__ = [
    "IS_NATIVE",
    "accept_batch",
    "crc32",
    "down_convert_records",
    "down_converted_size",
    "note_keys",
    "retain_records",
    "scan_records",
    "up_convert_messages",
]

if TYPE_CHECKING:
    from pybroker.records import _kernels_native as _kernels
else:
    _kernels = extension("pybroker.records._kernels_native") or _kernels_python

IS_NATIVE = _kernels is not _kernels_python

accept_batch = _kernels.accept_batch
crc32 = _kernels.crc32
scan_records = _kernels.scan_records
down_converted_size = _kernels.down_converted_size
down_convert_records = _kernels.down_convert_records
up_convert_messages = _kernels.up_convert_messages
note_keys = _kernels.note_keys
retain_records = _kernels.retain_records
