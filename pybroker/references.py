"""Measures what `sys.getrefcount` returns for one reference: from Python 3.14 on, it does not count its argument."""

from __future__ import annotations

from sys import getrefcount
from typing import Final

__all__ = ["REFERENCES_OF_ONE"]


def _references_of_one() -> int:
    made = object()
    return getrefcount(made)


REFERENCES_OF_ONE: Final = _references_of_one()
"""The `getrefcount` of a variable's object to which only this variable refers."""
