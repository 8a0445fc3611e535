"""A data file as requests use it: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_file_end_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.log import _file_end_python
from pybroker.log._file_end_python import HOT_TAIL, FileEnd, FileSlice, FileTooShortError
from pybroker.native import choose

__all__ = ["HOT_TAIL", "IS_NATIVE", "FileEnd", "FileSlice", "FileTooShortError"]

IS_NATIVE: Final = choose(_file_end_python, globals())
