"""Requests that are like one before: native where that part was built, else Python; `pybroker/native.py` chooses.

The contract is in `_forms_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.protocol import _forms_python
from pybroker.protocol._forms_python import LENGTH_BYTES, NUMBER_BYTES, RequestForm
from pybroker.protocol.wire import uvarint

__all__ = ["HEAD_BYTES_MAX", "IS_NATIVE", "RequestForm", "form_of"]

HEAD_BYTES_MAX: Final = 512
"""A request with more in front of its records has no form: a connection keeps its form for as long as it is open."""
TAIL_BYTES_MAX: Final = 8


def form_of(frame: memoryview, number: int, records: memoryview, *, is_flexible: bool) -> RequestForm | None:
    """Return the form of a request that was decoded, in which `number` stands right before the length of `records`; or None.

    `frame` is borrowed, and `records` a slice of it. A frame that is not writable has no form.
    """
    start = _place(frame, records)
    length = uvarint(len(records) + 1) if is_flexible else len(records).to_bytes(LENGTH_BYTES)
    at = start - len(length) - NUMBER_BYTES
    if at < 0 or at > HEAD_BYTES_MAX or frame[at:start] != number.to_bytes(NUMBER_BYTES, signed=True) + length:
        return None
    return RequestForm(frame[:at].tobytes(), frame[start + len(records) :].tobytes(), is_flexible)


def _place(frame: memoryview, records: memoryview) -> int:
    """Return where `records` begin in `frame`, of which they are a slice with at most TAIL_BYTES_MAX behind it; -1 if unknown.

    Equal bytes may stand elsewhere, so a byte of the frame is changed for a moment: only the true place shows it.
    """
    if not records or frame.readonly:
        return -1
    for tail_size in range(TAIL_BYTES_MAX + 1):
        start = len(frame) - tail_size - len(records)
        if start < 0:
            break
        byte = frame[start]
        frame[start] = byte ^ 0xFF
        is_there = records[0] == byte ^ 0xFF
        frame[start] = byte
        if is_there:
            return start
    return -1


IS_NATIVE: Final = choose(_forms_python, globals())
