"""Login modules with options, in the syntax of Java's JAAS: what Kafka's properties hold for each mechanism.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" user_alice="secret" ;

Java's comments are left out. A word needs quotes if it has other
characters than letters, digits and `_$.-`, and in quotes a backslash begins one of Java's escapes.

No message has a part of the text, which may be a password.

Source: JaasConfig, JaasContext, java.security's ConfigFile, StreamTokenizer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:[^"\\\n]|\\.)*") | (?P<word>[\w$.\-]+) | (?P<sign>[=;{}]) | (?P<bad>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_QUOTED: Final = re.compile(r'[\\"\n]')
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """A text that does not follow the syntax; the message has what is missing, without a part of the text."""


class LoginModule(NamedTuple):
    """A login module: its Java class, and its options."""

    name: str
    options: dict[str, str]

    def text(self) -> str:
        """Return the module as a property has it."""
        options = (f'{key}="{_QUOTED.sub(_escaped, value)}"' for key, value in self.options.items())
        return f"{self.name} required {' '.join(options)};"


class _Token(NamedTuple):
    text: str
    is_sign: bool


def parse_modules(text: str) -> list[LoginModule]:
    """Return the login modules of a property. Raises JaasError."""
    tokens = list(_tokens(text))
    modules = []
    position = 0
    while position < len(tokens):
        module, position = _module(tokens, position)
        modules.append(module)
    if not modules:
        raise JaasError("names no login module")
    return modules


def parse_sections(text: str) -> dict[str, list[LoginModule]]:
    """Return the login modules of each section of a file, `NAME { MODULE ...; };`. Raises JaasError."""
    tokens = list(_tokens(text))
    sections: dict[str, list[LoginModule]] = {}
    position = 0
    while position < len(tokens):
        modules = sections[_word(tokens, position, "a section has no name")] = []
        _sign(tokens, position + 1, "{", "the login modules of a section are not between braces")
        position += 2
        while position < len(tokens) and tokens[position] != ("}", True):
            module, position = _module(tokens, position)
            modules.append(module)
        _sign(tokens, position, "}", "a section does not end with a brace")
        _sign(tokens, position + 1, ";", "a section does not end with a semicolon")
        position += 2
    return sections


def _module(tokens: list[_Token], position: int) -> tuple[LoginModule, int]:
    """Return the module that begins at a position, and the position behind it."""
    name = _word(tokens, position, "the class of a login module is missing")
    flag = _word(tokens, position + 1, "the control flag of a login module is missing")
    if flag.lower() not in FLAGS:
        raise JaasError(f"the control flag of a login module is not one of {', '.join(FLAGS)}")
    position += 2
    options: dict[str, str] = {}
    while position < len(tokens) and tokens[position] != (";", True):
        key = _word(tokens, position, "an option has no name")
        _sign(tokens, position + 1, "=", f"option number {len(options) + 1} is not NAME=VALUE")
        options[key] = _word(tokens, position + 2, f"option number {len(options) + 1} has no value; a value may need quotes")
        position += 3
    _sign(tokens, position, ";", "a login module does not end with a semicolon")
    return LoginModule(name, options), position + 1


def _word(tokens: list[_Token], position: int, problem: str) -> str:
    if position >= len(tokens) or tokens[position].is_sign:
        raise JaasError(problem)
    return tokens[position].text


def _sign(tokens: list[_Token], position: int, sign: str, problem: str) -> None:
    if position >= len(tokens) or tokens[position] != (sign, True):
        raise JaasError(problem)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "bad":
            raise JaasError(f"character {match.start() + 1} needs quotes around its word")
        if kind == "quoted":
            yield _Token(_ESCAPE.sub(_unescaped, match[0][1:-1]), False)
        elif kind is not None:
            yield _Token(match[0], kind == "sign")


def _escaped(match: re.Match[str]) -> str:
    return "\\n" if match[0] == "\n" else "\\" + match[0]


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _CONTROLS.get(escaped, escaped)
