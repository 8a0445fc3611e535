"""One connection as an asyncio protocol: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_connection_python.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pybroker.native import choose
from pybroker.network import _connection_python
from pybroker.network._connection_python import TURN_NS, TURN_REQUESTS, WRITE_REQUESTS, ConnectionCore

__all__ = ["IS_NATIVE", "TURN_NS", "TURN_REQUESTS", "WRITE_REQUESTS", "Connection"]

IS_NATIVE: Final = choose(_connection_python, globals())


class Connection(ConnectionCore, asyncio.BufferedProtocol):
    """Takes bytes in, hands requests to the handler, and sends responses. Belongs to the loop."""

    __slots__ = ()
