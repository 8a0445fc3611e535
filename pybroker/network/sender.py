"""The sending half of a connection: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_sender_python.py`.
"""

from __future__ import annotations

from typing import Final

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
]

IS_NATIVE: Final = choose(_sender_python, globals())
