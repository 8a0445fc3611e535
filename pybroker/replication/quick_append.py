"""The short way through an append, native if it was built. Without it nothing is usual, and all goes the general way.

`PYBROKER_PURE=1` in the environment forces that, too. Its contract is in `_append.pyi`.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

__all__ = ["IS_NATIVE", "produce_one"]


def _nothing_is_usual(*_: object) -> None:
    """The twin of `produce_one`."""


if TYPE_CHECKING:
    from pybroker.replication._append import produce_one
else:
    produce_one = _nothing_is_usual
    if os.environ.get("PYBROKER_PURE", "0") in {"", "0"}:
        with contextlib.suppress(ImportError):
            from pybroker.replication._append import produce_one

IS_NATIVE = produce_one is not _nothing_is_usual
