"""Sets of letters in regular expressions: whether a letter is in a set is one lookup, however many parts the set has."""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Final

from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError

Accepts = Callable[[str], bool]

_DIGITS: Final = frozenset(string.digits)
_SPACES: Final = frozenset(" \t\n\r\f")
WORD: Final = frozenset(string.digits + string.ascii_letters + "_")
"""The letters of words."""

_CATEGORIES: Final = {"DIGIT": _DIGITS, "SPACE": _SPACES, "WORD": WORD}
_LAST: Final = 0x10FFFF  # the last letter of Unicode


def accepts(operator: str, argument: Any, flags: int) -> Accepts:
    """Return what accepts the letters of an item that Python has parsed. Raises PatternError."""
    if operator == "ANY":
        return lambda _char: True  # names have no line breaks
    contains: Callable[[int], bool]
    if operator == "IN":
        is_negated = str(argument[0][0]) == "NEGATE"
        contains = _contains([range_ for kind, item in argument[is_negated:] for range_ in _ranges(str(kind), item)])
    else:
        is_negated = operator == "NOT_LITERAL"
        contains = int(argument).__eq__
    if not flags & re.IGNORECASE:
        return (lambda char: not contains(ord(char))) if is_negated else (lambda char: contains(ord(char)))
    return lambda char: any(contains(ord(form)) for form in (char.lower(), char.upper()) if len(form) == 1) is not is_negated


def _contains(ranges: Iterable[tuple[int, int]]) -> Callable[[int], bool]:
    """Return whether a number is in any of the ranges, the ends of which belong to them."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start <= ends[-1] + 1:
            ends[-1] = max(end, ends[-1])
        else:
            starts.append(start)
            ends.append(end)
    if starts == ends:
        return frozenset(starts).__contains__

    def contains(number: int) -> bool:
        place = bisect_right(starts, number)
        return place > 0 and number <= ends[place - 1]

    return contains


def _ranges(kind: str, argument: Any) -> list[tuple[int, int]]:
    if kind == "LITERAL":
        return [(argument, argument)]
    if kind == "RANGE":
        return [(argument[0], argument[1])]
    if kind == "CATEGORY":
        name = str(argument).removeprefix("CATEGORY_")
        numbers = sorted(map(ord, _CATEGORIES[name.removeprefix("NOT_")]))
        if not name.startswith("NOT_"):
            return [(number, number) for number in numbers]
        return [
            (before + 1, behind - 1)
            for before, behind in zip([-1, *numbers], [*numbers, _LAST + 1], strict=True)
            if behind - before > 1
        ]
    raise PatternError(f"{kind.lower()} is not supported")
