"""The short way through an append, native if it was built. Without it nothing is usual, and all goes the general way.

`PYBROKER_PURE=1` in the environment forces that, too. Its contract is in `_append.pyi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.native import extension

__all__ = ["IS_NATIVE", "produce_one"]


def _nothing_is_usual(*_: object) -> None:
    """The twin of `produce_one`."""


if TYPE_CHECKING:
    from pybroker.replication._append import produce_one
else:
    _append = extension("pybroker.replication._append")
    produce_one = _nothing_is_usual if _append is None else _append.produce_one

IS_NATIVE = produce_one is not _nothing_is_usual
