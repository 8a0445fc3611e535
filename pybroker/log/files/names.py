"""Names of the files in a partition's directory: an offset in twenty digits, a dot, and what kind of file it is.

Source: LogFileUtils.filenamePrefixFromOffset.
"""

from __future__ import annotations

from typing import Final

from pybroker.model import Offset

OFFSET_DIGITS: Final = 20
KEPT_SUFFIX: Final = ".kept"
"""The end of the name of a file with records that a start had to give up."""


def offset_of(name: str) -> Offset:
    """Return the offset in a file's name; -1 for a name of another form, whose file is not ours."""
    stem = name.partition(".")[0]
    return Offset(int(stem) if len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit() else -1)
