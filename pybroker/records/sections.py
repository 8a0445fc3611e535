"""The walks through the records of one batch, which come in pieces: an overview, the refused ones, one of a time, new numbers.

Native where they were built, otherwise Python; `pybroker/native.py` chooses. Their contract is in `_sections_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.native import choose
from pybroker.records import _sections_python
from pybroker.records._sections_python import Overview, Refusals, Renumbering, Search

__all__ = ["IS_NATIVE", "Overview", "Refusals", "Renumbering", "Search"]

IS_NATIVE: Final = choose(_sections_python, globals())
