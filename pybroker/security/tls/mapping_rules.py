"""`ssl.principal.mapping.rules`: what of a distinguished name is the name of the user.

    DEFAULT                          the whole name
    RULE:PATTERN/REPLACEMENT/[LU]    a name that PATTERN fits wholly, with its matches replaced; L and U change the case

Rules are separated by commas; the first that fits counts. In REPLACEMENT, $1 is the first group of PATTERN. Patterns
are Python's, which are those of Java but for rare constructs.

Source: SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,\s*|$)"
)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")


class NoRuleError(Exception):
    """A name that no rule fits."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]
    case: str

    def apply(self, name: str) -> str | None:
        """Return the user's name; None if the rule does not fit."""
        if self.pattern.fullmatch(name) is None:
            return None
        user = self.pattern.sub(self.replacement, name)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


class MappingRules:
    """The rules of a property, in their order."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        """Parse the rules. Raises ValueError with the reason."""
        self._text = text.strip()
        self._rules: list[_Rule | None] = []  # None is DEFAULT
        position = 0
        while position < len(self._text):
            match = _RULE.match(self._text, position)
            if match is None:
                raise ValueError(f"{self._text[position:]!r} does not begin with DEFAULT or RULE:PATTERN/REPLACEMENT/[LU]")
            self._rules.append(None if match["default"] else _rule(match))
            position = match.end()

    def user_name(self, name: str) -> str:
        """Return the user's name of a distinguished name. Raises NoRuleError."""
        if not self._rules:
            return name
        for rule in self._rules:
            user = name if rule is None else rule.apply(name)
            if user is not None:
                return user
        raise NoRuleError(f"no rule of ssl.principal.mapping.rules fits {name}")


def _rule(match: re.Match[str]) -> _Rule:
    try:
        pattern = re.compile(match["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the pattern {match['pattern']} is no regular expression: {error}") from None
    return _Rule(pattern, _replacement(match["replacement"], pattern.groups), match["case"])


def _replacement(text: str, groups: int) -> Callable[[re.Match[str]], str]:
    """Return what puts a match's groups into `text`. A number has as many digits as there is a group for."""
    parts: list[str | int] = []
    position = 0
    for found in _REFERENCE.finditer(text):
        parts.append(text[position : found.start()])
        position = found.end()
        if found[1] is not None:
            parts.append(found[1])
            continue
        digits = found[2]
        size = next((size for size in range(len(digits), 0, -1) if int(digits[:size]) <= groups), 0)
        if not size:
            if groups:
                raise ValueError(f"the replacement {text} has ${digits}, and the pattern has {groups} groups")
            parts.append(found[0])
        else:
            parts.extend((int(digits[:size]), digits[size:]))
    parts.append(text[position:])
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)
