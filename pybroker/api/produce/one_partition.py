"""The way of a Produce of one partition: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_one_partition_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.api.produce import _one_partition_python
from pybroker.api.produce._one_partition_python import (
    RepeatedProduce,
    ResponseForm,
    only,
    partition_response,
    produce_one,
    repeated,
)
from pybroker.native import choose

__all__ = ["IS_NATIVE", "RepeatedProduce", "ResponseForm", "only", "partition_response", "produce_one", "repeated"]

IS_NATIVE: Final = choose(_one_partition_python, globals())
