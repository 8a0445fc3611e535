"""The command line as Kafka's tools read it (jopt-simple): `--topic t`, `--topic=t`, `-topic t`, and `--repl 3` for
`--replication-factor 3` where no other option begins with the same letters. Not argparse, whose import is half of what
`kafka-topics --list` costs.
"""

from __future__ import annotations

from pybroker.tools.errors import NOT_SUPPORTED, CommandError

FLAG, VALUE, MAYBE = "", "value", "maybe a value"


class Options:
    """The options that were given: the values by option, in their order; an option without value has none."""

    def __init__(self, kinds: dict[str, str], given: list[tuple[str, str | None]], rest: list[str]) -> None:
        self._kinds, self.given, self.rest = kinds, given, rest

    def has(self, *names: str) -> bool:
        """Return whether any of the options was given."""
        return any(name in names for name, _ in self.given)

    def values(self, name: str) -> list[str]:
        """Return all values that were given for an option."""
        return [value for given, value in self.given if given == name and value is not None]

    def value(self, name: str) -> str | None:
        """Return the value of an option that may be given once. Raises CommandError."""
        found = self.values(name)
        if len(found) > 1:
            raise CommandError(f"Found multiple arguments for option {name}, but you asked for only one")
        return found[0] if found else None

    def number(self, name: str, *, is_long: bool = False) -> int | None:
        """Return the value of an option as an integer of 32 bits, or of 64. Raises CommandError."""
        text = self.value(name)
        if text is None:
            return None
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not digits.isdecimal() or not digits.isascii() or abs(int(text)) >= 1 << (63 if is_long else 31):
            raise CommandError(f"Cannot parse argument '{text}' of option {name}")
        return int(text)

    def require(self, *names: str) -> None:
        """Raise CommandError for the first option that is missing."""
        for name in names:
            if not self.has(name):
                raise CommandError(f'Missing required argument "[{name}]"')

    def forbid(self, name: str, others: tuple[str, ...]) -> None:
        """Raise CommandError when an option is given together with one of the others."""
        if self.has(name):
            for other in others:
                if self.has(other):
                    raise CommandError(f'Option "[{name}]" can\'t be used with option "[{other}]"')


def parse(tool: str, kinds: dict[str, str], arguments: list[str]) -> Options:
    """Parse a command line; `kinds` has for each option whether it takes a value. Raises CommandError: code 2 for unknown
    options.
    """
    given: list[tuple[str, str | None]] = []
    rest: list[str] = []
    index = 0
    while index < len(arguments):
        word = arguments[index]
        index += 1
        if word == "--":
            rest += arguments[index:]
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = _known(tool, kinds, name, word)
        kind = kinds[name]
        if kind == FLAG:
            if equals:
                raise CommandError(f"Option {name} does not take a value")
            given.append((name, None))
        elif equals:
            given.append((name, value))
        elif index < len(arguments) and (kind == VALUE or not arguments[index].startswith("-")):
            given.append((name, arguments[index]))
            index += 1
        elif kind == MAYBE:
            given.append((name, None))
        else:
            raise CommandError(f"Option {name} requires an argument")
    return Options(kinds, given, rest)


def _known(tool: str, kinds: dict[str, str], name: str, word: str) -> str:
    if name in kinds:
        return name
    if f"{name}s" in kinds:  # --partition, which was only an abbreviation of --partitions until Kafka 3.7
        return f"{name}s"
    begun = [kind for kind in kinds if kind.startswith(name)] if name and word.startswith("--") else []
    if len(begun) == 1:
        return begun[0]
    shown = word.partition("=")[0]
    if begun:
        raise CommandError(f"{tool}: {shown} may be {', '.join(f'--{one}' for one in begun)}", NOT_SUPPORTED)
    raise CommandError(f"{tool}: {shown} is not supported; {tool} --help lists what is", NOT_SUPPORTED)
