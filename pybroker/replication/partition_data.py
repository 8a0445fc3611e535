"""The wanted part of one partition in a fetch, and what was read of it: native where it was built, else Python.

`pybroker/native.py` chooses; the contract is in `_partition_data_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.replication import _partition_data_python
from pybroker.replication._partition_data_python import (
    NO_PREFERRED_REPLICA,
    CachedPartition,
    FetchPartition,
    FetchPartitionData,
    ResponseLimit,
    is_present_epoch,
    session_key,
)

__all__ = [
    "IS_NATIVE",
    "NO_PREFERRED_REPLICA",
    "CachedPartition",
    "FetchPartition",
    "FetchPartitionData",
    "ResponseLimit",
    "is_present_epoch",
    "session_key",
]

IS_NATIVE: Final = choose(_partition_data_python, globals())
