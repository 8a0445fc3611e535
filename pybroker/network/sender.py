"""The sending half of a connection: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_sender_python.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from pybroker.native import choose
from pybroker.network import _sender_python
from pybroker.network._sender_python import (
    COPIED_PIECE_BYTES,
    HIGH_WATER_BYTES,
    JOINED_BYTES,
    MADE_BYTES,
    PIECE_BYTES,
    QUICK_BYTES,
    QUICK_NS,
    SMALL_PIECE_BYTES,
    TURN_BYTES,
    Output,
    Sender,
    SenderOwner,
)

if TYPE_CHECKING:
    from asyncio import Transport

__all__ = [
    "COPIED_PIECE_BYTES",
    "HIGH_WATER_BYTES",
    "IS_NATIVE",
    "JOINED_BYTES",
    "MADE_BYTES",
    "PIECE_BYTES",
    "QUICK_BYTES",
    "QUICK_NS",
    "SMALL_PIECE_BYTES",
    "TURN_BYTES",
    "Output",
    "Sender",
    "SenderOwner",
    "piece_bytes_for",
]

IS_NATIVE: Final = choose(_sender_python, globals())


def piece_bytes_for(transport: Transport) -> int:
    """Return the size of large pieces; `writelines` of asyncio's own transports before 3.12 joins its arguments."""
    is_copying = sys.version_info < (3, 12) and type(transport).__module__.startswith("asyncio.")
    return COPIED_PIECE_BYTES if is_copying else PIECE_BYTES
