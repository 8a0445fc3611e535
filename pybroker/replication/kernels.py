"""The loops that every fetch runs over its partitions, native if they were built, else their pure twins.

`PYBROKER_PURE=1` in the environment forces the twins. Call them through this module (`kernels.read_partitions(...)`), so that
the tests can run on both. Their contract is in `_native.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.native import extension
from pybroker.replication import _pure

__all__ = ["IS_NATIVE", "answered_topics", "read_at_once", "read_partitions", "wanted_partitions"]

if TYPE_CHECKING:
    from pybroker.replication import _native as _kernels
else:
    _kernels = extension("pybroker.replication._native") or _pure

IS_NATIVE = _kernels is not _pure

wanted_partitions = _kernels.wanted_partitions
read_at_once = _kernels.read_at_once
read_partitions = _kernels.read_partitions
answered_topics = _kernels.answered_topics
