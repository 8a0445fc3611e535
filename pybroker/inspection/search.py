"""Finds the next sound batch after damage.

A batch can begin at any byte. Patterns in C choose the bytes that look like a header whose offset may come next; the checksum
decides. The cost of a search is bounded, because bytes can be made to look like headers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pybroker.records.batch import LOG_OVERHEAD, OFFSET_AND_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pybroker.inspection.data_file import DataFile

CHUNK: Final = 1 << 20
HEAD: Final = 23
"""The bytes of a header that the patterns look at."""
OFFSETS_AHEAD: Final = 1 << 32
"""How far the next offset may be from the expected one, about."""
CANDIDATES_MAX: Final = 200_000
_REST_2: Final = rb"(?!\0\0\0\0)[\0-\x7f].{3}.{4}\x02.{4}\0[\0-\x7f]"
_REST_LEGACY: Final = rb"(?!\0\0\0\0)[\0-\x7f].{3}.{4}[\0\x01][\0-\x0f].{5}"


class Budget:
    """The cost that searches in one file may still have: candidates, and bytes whose checksums are computed."""

    __slots__ = ("bytes_left", "candidates_left")

    def __init__(self, size: int) -> None:
        self.bytes_left = 4 * size + (64 << 20)
        self.candidates_left = CANDIDATES_MAX

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.bytes_left <= 0 or self.candidates_left <= 0


def next_sound(file: DataFile, position: int, *, expected: int, budget: Budget, is_sound: Callable[[DataFile, int], bool]) -> int:
    """Return where the first sound batch at or after `position` begins; the end of the file if there is none, or when the
    budget is spent. Raises OSError.
    """
    for candidate, size in _candidates(file, position, expected=expected):
        if budget.is_spent:
            break
        budget.candidates_left -= 1
        if candidate + size > file.size:
            continue
        budget.bytes_left -= size
        if is_sound(file, candidate):
            return candidate
    return file.size


def _candidates(file: DataFile, position: int, *, expected: int) -> Iterator[tuple[int, int]]:
    """Yield positions and sizes of what looks like the header of a batch."""
    expected = max(expected, 0)
    prefixes = {value.to_bytes(4) for value in (expected >> 32, (expected + OFFSETS_AHEAD) >> 32) if value < 1 << 31}
    starts = b"|".join(re.escape(one) for one in sorted(prefixes))
    pattern = re.compile(rb"(?s)(?=(?:" + starts + rb").{4}(?:" + _REST_2 + rb"|" + _REST_LEGACY + rb"))")
    while position < file.size:
        chunk = file.read(CHUNK, position)
        for match in pattern.finditer(chunk):
            offset, length = OFFSET_AND_SIZE.unpack_from(chunk, match.start())
            if offset >= expected:
                yield position + match.start(), length + LOG_OVERHEAD
        if len(chunk) < CHUNK:
            return
        position += len(chunk) - HEAD
