"""The end of a data file: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_file_end_python.py`.
"""

from __future__ import annotations

from typing import Final

from pybroker.log import _file_end_python
from pybroker.log._file_end_python import FileEnd
from pybroker.native import choose

__all__ = ["IS_NATIVE", "FileEnd"]

IS_NATIVE: Final = choose(_file_end_python, globals())
