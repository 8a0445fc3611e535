r"""Java's .properties syntax, so that a file written for Kafka means the same here.

    # comment, ! comment                 the first character that is not a blank decides
    key=value   key:value   key value    blanks around the separator do not count, blanks at the end of a value do
    key=one,\
        two                              an odd number of backslashes at the end: the next line continues this one, unindented
    path=C\:\\data \u00e9 \t \n \r \f    escapes; before any other character a backslash disappears

The last of several entries with one key counts.

Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """A text that does not follow the syntax; the message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a .properties text in their order. Raises PropertiesError for a malformed Unicode escape."""
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        entries[_unescape(key, number)] = _unescape(value, number)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each entry as a single line without its indentation, after the number (from 1) of the line where it begins."""
    lines = iter(enumerate(_LINE_END.split(text), start=1))
    for number, natural in lines:
        line = natural.lstrip(BLANKS)
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1]
            following = next(lines, None)
            if following is None:
                break
            line += following[1].lstrip(BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Return key and value, still escaped. The key ends at the first separator or blank without a backslash before it."""
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in BLANKS:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    return key, rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "u":
            raise PropertiesError(f"line {line_number}: \\u needs four hexadecimal digits")
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    # Java's escapes are UTF-16 units: a surrogate pair of them is a single character.
    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
