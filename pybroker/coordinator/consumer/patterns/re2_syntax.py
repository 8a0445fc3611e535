r"""Translates regular expressions from RE2's language to Python's, where they differ.

    RE2                    Python
    [[:alpha:]]            [A-Za-z]; [:^alpha:] is refused
    \Q...\E                its characters, escaped
    \z                     \Z, which RE2 does not know
    (?<name>...)           (?P<name>...)
    the flag U             nothing: greedy or not makes no difference where the whole text must match
    x{,3}                  x\{,3}: no repetition
    (?#...), \N, \u, \U    refused, as RE2 does

RE2 also knows classes of Unicode (\pL), \C, and flags in the middle of a group. This module refuses them.

Source: RE2's documented syntax; RE2/J.
"""

from __future__ import annotations

import re
from typing import Final

_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\x0b\f\r ", "upper": "A-Z",
    "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ONLY_PYTHON: Final = frozenset({r"\Z", r"\N", r"\u", r"\U"})
_FLAGS: Final = frozenset("imsU")

_OUTSIDE: Final = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|$)
    |(?P<escape>\\.)
    |(?P<begin>\[\^?\]?)
    |\(\?(?P<on>[A-Za-z]*)(?P<off>-[A-Za-z]+)?(?P<head>[:)])
    |(?P<comment>\(\?\#)
    |(?P<name>\(\?<(?![=!]))
    |(?P<brace>\{,)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_INSIDE: Final = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|$)
    |(?P<escape>\\.)
    |\[:(?P<posix>\^?\w*):\]
    |(?P<bracket>\[)
    |(?P<end>\])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


class PatternError(Exception):
    """The error of a pattern that cannot be used; its text is for people."""


def as_python(pattern: str) -> str:
    """Return the pattern in Python's language, whose parser finds most errors. Raises PatternError."""
    translated: list[str] = []
    position, is_inside = 0, False
    while match := (_INSIDE if is_inside else _OUTSIDE).match(pattern, position):
        position = match.end()
        kind = match.lastgroup
        is_inside = kind == "begin" or (is_inside and kind != "end")
        translated.append(_translated(kind or "", match))
    return "".join(translated)


def _translated(kind: str, match: re.Match[str]) -> str:
    match kind:
        case "quoted":
            return re.escape(match[kind])
        case "escape" if match[kind] in _ONLY_PYTHON:
            raise PatternError(f"bad escape {match[kind]}")
        case "escape":
            return r"\Z" if match[kind] == r"\z" else match[kind]
        case "posix":
            if match[kind] not in _CLASSES:
                raise PatternError(f"[:{match[kind]}:] is not supported")
            return _CLASSES[match[kind]]
        case "bracket" | "brace":
            return "\\" + match[kind]
        case "head":
            return _head(match["head"], on=match["on"], off=(match["off"] or "")[1:])
        case "comment":
            raise PatternError("comments are not supported")
        case "name":
            return "(?P<"
    return match[kind]


def _head(end: str, *, on: str, off: str) -> str:
    if not set(on + off) <= _FLAGS:
        raise PatternError(f"flags {on}{off} are not supported")
    on, off = on.replace("U", ""), off.replace("U", "")
    if end == ")" and not on:
        return ""
    return f"(?{on}{'-' if off else ''}{off}{end}"
