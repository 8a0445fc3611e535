"""Matches regular expressions that clients subscribe with, in a time that the clients cannot choose.

Kafka uses RE2, whose time grows with the length of the pattern times that of the text. Here Python's `re` parses the patterns but
does not match them: it tries alternatives in turn, and a client could stop the broker with `(a+)+b`. A pattern becomes a small
automaton that is in many states at once. A pattern that needs more than an automaton can do (references to groups, looking
around, possessive parts) is refused, as RE2 refuses it.

Where the two languages differ, RE2's rule holds; see `re2_syntax`.

Cost
    A set of states in which the automaton is gets a number, and where each letter leads from there is looked for once. So a name
    costs a lookup for each letter, 0.1 us, once a few similar names were matched. The search is bounded: a pattern that visits
    more than VISITS_MAX states between two calls of `begin` is refused, after about 10 ms. Patterns that people write visit some
    thousand; each letter of `([a-z]?){4990}` would visit 10,000. A visit costs the same however many letters a set has
    (`letters`), and a set is made once for all repetitions. Building is bounded by BUILDING_MAX, in about 15 ms.

Source: KIP-848; RE2/J as Kafka uses it: the whole name must match. R. Cox, "Regular Expression Matching Can Be Simple And Fast".
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pybroker.coordinator.consumer.patterns.letters import WORD, Accepts, accepts
from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError, as_python

MAX_STATES: Final = 5_000
MAX_LENGTH: Final = 5_000
VISITS_MAX: Final = 30_000

BUILDING_MAX: Final = 20_000
"""The number of parts that building an automaton may look at: a part may have no state, and be looked at for each repetition."""

_parser: Any = re._parser  # type: ignore[attr-defined]  # the only public way to it was removed in 3.11
_REFUSED_FLAGS: Final = re.LOCALE | re.VERBOSE

_START: Final = -1  # before the first letter
_Context = tuple[bool, bool, bool, bool]
"""The facts that an assertion can see at a position: whether it is the start, the end, behind a letter of a word, before one."""
_NO_CONTEXT: Final[_Context] = (False, False, False, False)  # of a pattern without assertions

_State = tuple[str, Any, list[int]]
"""A state: `char` with what it accepts, the name of an assertion, `free` or `done`; then the next states."""


class TopicPattern:
    """A compiled pattern. The constructor raises PatternError."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_LENGTH:
            raise PatternError("it is too long")
        tree = _parsed(pattern)
        if tree.state.flags & _REFUSED_FLAGS:
            raise PatternError("it has a flag that is not supported")
        self._flags: int = tree.state.flags
        self._states: list[_State] = [("done", None, [])]
        self._has_assertions = False
        self._looked_at = 0
        self._accepts: dict[tuple[int, int], Accepts] = {}
        try:
            self._first = self._sequence(tree, after=0, flags=self._flags)
        except RecursionError as error:
            raise PatternError("it is nested too deeply") from error
        self._accepts.clear()
        self._visits = 0
        self._sets: list[frozenset[int]] = []  # the sets of states that were met, by their numbers
        self._numbers: dict[frozenset[int], int] = {}
        self._moves: dict[tuple[int, str, _Context], int] = {}  # where a letter leads from a set, if it stands there

    def begin(self) -> None:
        """Begin to match names: from now on VISITS_MAX states may be visited."""
        self._visits = 0

    def matches(self, text: str) -> bool:
        """Return whether the whole of `text` matches. Raises PatternError if that is too much work."""
        current, moves, context = _START, self._moves, _NO_CONTEXT
        for position, char in enumerate(("", *text)):
            if self._has_assertions:
                context = _context(position, text)
            following = moves.get((current, char, context))
            if following is None:
                following = moves[current, char, context] = self._look_for(current, char, position, text)
            if not self._sets[following]:
                return False
            current = following
        return 0 in self._sets[current]

    def _look_for(self, current: int, char: str, position: int, text: str) -> int:
        """Return the number of the set in which the automaton is behind `char`. Raises PatternError."""
        if current == _START:
            following = [self._first]
        else:
            states = self._sets[current]
            self._visits += len(states)
            following = [
                after for state in states if (kind := self._states[state])[0] == "char" and kind[1](char) for after in kind[2]
            ]
        reached = frozenset(self._reach(following, position, text))
        number = self._numbers.get(reached)
        if number is None:
            number = self._numbers[reached] = len(self._sets)
            self._sets.append(reached)
        return number

    def _reach(self, states: Iterable[int], position: int, text: str) -> set[int]:
        reached: set[int] = set()
        pending = list(states)
        while pending:
            self._visits += 1
            if self._visits > VISITS_MAX:
                raise PatternError("it is too much work to match")
            state = pending.pop()
            if state in reached:
                continue
            reached.add(state)
            kind, _, following = self._states[state]
            if kind == "free" or _ASSERTIONS.get(kind, _never)(text, position):
                pending += following
        return reached

    # Building, from the end to the beginning: each part knows what comes after it

    def _add(self, kind: str, accepts: Accepts | None, following: list[int]) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError("it is too large")
        self._states.append((kind, accepts, following))
        return len(self._states) - 1

    def _sequence(self, items: Any, *, after: int, flags: int) -> int:
        self._looked_at += 1 + len(items)
        if self._looked_at > BUILDING_MAX:
            raise PatternError("it is too large")
        for operator, argument in reversed(list(items)):
            after = self._part(str(operator), argument, after=after, flags=flags)
        return after

    def _part(self, operator: str, argument: Any, *, after: int, flags: int) -> int:
        match operator:
            case "IN":
                key = (id(argument), flags)  # a set of letters is made once, not for each repetition; the tree keeps `argument`
                if key not in self._accepts:
                    self._accepts[key] = accepts(operator, argument, flags)
                return self._add("char", self._accepts[key], [after])
            case "LITERAL" | "NOT_LITERAL" | "ANY":
                return self._add("char", accepts(operator, argument, flags), [after])
            case "BRANCH":
                return self._add("free", None, [self._sequence(branch, after=after, flags=flags) for branch in argument[1]])
            case "SUBPATTERN":
                _number, more, fewer, inner = argument
                return self._sequence(inner, after=after, flags=(flags | more) & ~fewer)
            case "MAX_REPEAT" | "MIN_REPEAT":
                lowest, highest, inner = argument
                return self._repeat(inner, lowest=lowest, highest=highest, after=after, flags=flags)
            case "AT":
                where = str(argument)
                if where in _ASSERTIONS:
                    self._has_assertions = True
                    return self._add(where, None, [after])
        raise PatternError(f"{operator.lower()} is not supported")

    def _repeat(self, inner: Any, *, lowest: int, highest: Any, after: int, flags: int) -> int:
        if highest == _parser.MAXREPEAT:
            loop = self._add("free", None, [])
            self._states[loop][2].extend([self._sequence(inner, after=loop, flags=flags), after])
            after = loop
        else:
            end = after
            for _ in range(highest - lowest):
                after = self._add("free", None, [self._sequence(inner, after=after, flags=flags), end])
        for _ in range(lowest):
            before = len(self._states)
            after = self._sequence(inner, after=after, flags=flags)
            if len(self._states) == before:
                break  # the inner part is empty, however often it is repeated
        return after


def _parsed(pattern: str) -> Any:
    """Return the tree of the pattern. Raises PatternError."""
    try:
        with warnings.catch_warnings(action="ignore"):  # each `--` in a set would be a warning of its own
            return _parser.parse(as_python(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from error


def _is_start(_text: str, position: int) -> bool:
    return position == 0


def _is_end(text: str, position: int) -> bool:
    return position == len(text)


def _is_boundary(text: str, position: int) -> bool:
    return (position > 0 and text[position - 1] in WORD) is not (position < len(text) and text[position] in WORD)


def _is_inside(text: str, position: int) -> bool:
    return not _is_boundary(text, position)


def _context(position: int, text: str) -> _Context:
    length = len(text)
    before, behind = position > 0 and text[position - 1] in WORD, position < length and text[position] in WORD
    return position == 0, position == length, before, behind


def _never(_text: str, _at: int) -> bool:
    return False


_ASSERTIONS: Final[Mapping[str, Callable[[str, int], bool]]] = {
    "AT_BEGINNING": _is_start, "AT_BEGINNING_STRING": _is_start, "AT_END": _is_end, "AT_END_STRING": _is_end,
    "AT_BOUNDARY": _is_boundary, "AT_NON_BOUNDARY": _is_inside,
}  # fmt: skip
"""The assertions, as functions that return whether an assertion holds at a position between two characters of a text."""
