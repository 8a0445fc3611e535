"""The usual response to a Fetch, natively if that was built; `pybroker/native.py` chooses.

The contract is in `_usual_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.api.fetch import _usual_python
from pybroker.api.fetch._usual_python import (
    COPIED_BYTES_MAX,
    READ_COMMITTED,
    REPLICA_STATE_VERSION,
    TOPIC_ID_VERSION,
    ZSTD_VERSION,
    names_of,
    replica_of,
    topic_responses,
    usual_response,
)
from pybroker.native import choose

__all__ = [
    "COPIED_BYTES_MAX",
    "IS_NATIVE",
    "READ_COMMITTED",
    "REPLICA_STATE_VERSION",
    "TOPIC_ID_VERSION",
    "ZSTD_VERSION",
    "names_of",
    "replica_of",
    "topic_responses",
    "usual_response",
]

IS_NATIVE: Final = choose(_usual_python, globals())
