"""A row of the configuration table: a property's name, how its text becomes a value, and which values it accepts.

Every user of the configuration reads the same rows: start-up parsing, topic overrides, the generated `config/server.properties`
and `docs/configuration.md`. A row is plain data, so building the whole table costs about a millisecond at start-up.

Source: ConfigDef (parseType and its validators).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(Exception):
    """A property whose value cannot be used. The message is for people, and names the property and the value.

    `client_message` is the message for a client, in Kafka's words, which tools show and some programs look for.
    """

    def __init__(self, key: str, value: object, reason: str, client_message: str | None = None) -> None:
        text = "" if value is None else ",".join(value) if isinstance(value, tuple) else str(value)  # a list as it is written
        super().__init__(f"{key}={text if text.isprintable() else repr(text)[1:-1]}: {reason}")  # one line, whatever the value
        self.key = key
        self.value = value
        self.reason = reason
        self.client_message = invalid_value(key, value, reason) if client_message is None else client_message


def invalid_value(key: str, value: object, words: str) -> str:
    """Return Kafka's sentence about a value; `words` describe what is wrong with it."""
    return f"Invalid value {value} for configuration {key}: {words}"


class Kind(Enum):
    """The type of a property, by Kafka's name."""

    BOOLEAN = "boolean"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"
    CLASS = "class"
    PASSWORD = "password"  # noqa: S105  # the name of a type


class Effect(Enum):
    """Whether a property has an effect in this version."""

    YES = "yes"
    LATER = "not yet"
    NEVER = "accepted, ignored"


class Update(Enum):
    """Whether a running broker may change a property, by Kafka's name for it."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"


class Check(NamedTuple):
    """A rule for values of the right type. `text` completes the sentence "must be".

    `words` returns Kafka's words about a value that is not accepted, in which `{name}` is the property; it is None where Kafka
    has no such check. For a list with a `by_element` check, the words are about its first bad element.
    """

    text: str
    accepts: Callable[[Any], bool]
    words: Callable[[Any], str] | None = None
    by_element: bool = False


def at_least(low: float) -> Check:
    """Accept numbers from `low` up."""
    return Check(f"at least {low}", lambda value: value >= low, lambda _: f"Value must be at least {low}")


def between(low: float, high: float) -> Check:
    """Accept numbers from `low` to `high`, both included."""

    def words(value: float) -> str:
        return f"Value must be at least {low}" if value < low else f"Value must be no more than {high}"

    return Check(f"between {low} and {high}", lambda value: low <= value <= high, words)


def between_or(low: int, high: int, special: int) -> Check:
    """Accept numbers from `low` to `high`, and the value `special` outside of them."""
    return Check(
        f"between {low} and {high}, or {special}",
        lambda value: low <= value <= high or value == special,
        lambda _: f"Value must be between {low} and {high} or equal to {special}",
    )


def one_of(*names: str) -> Check:
    """Accept these names, in the same case."""
    text = ", ".join(names)
    return Check(f"one of {text}", lambda value: value in names, lambda _: f"String must be one of: {text}")


def all_of(*names: str) -> Check:
    """Accept lists that contain only these names."""
    text = ", ".join(names)
    return Check(
        f"a list of {text}", lambda value: set(value) <= set(names), lambda _: f"String must be one of: {text}", by_element=True
    )


NOT_EMPTY: Final = Check("not empty", bool)


class Setting(NamedTuple):
    """A property. `default` has the property's type; None is Kafka's null, "not set"."""

    name: str
    kind: Kind
    default: Value
    doc: str
    check: Check | None = None
    effect: Effect = Effect.YES
    update: Update = Update.READ_ONLY

    @property
    def attribute(self) -> str:
        """The name of the property's attribute of `BrokerConfig` or `TopicConfig`."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Value:
        """Return the value that `text` means; an empty text is null where null is the default. Raises ConfigError."""
        text = text.strip()
        if not text and self.default is None:
            return None
        value = self._convert(text)
        if self.check is not None and not self.check.accepts(value):
            raise ConfigError(self.name, self.shown(text), f"must be {self.check.text}", self._client_message(value))
        return value

    def _client_message(self, value: Value) -> str:
        """Return the message for a client about a value that the check refuses."""
        assert self.check is not None
        words = f"must be {self.check.text}" if self.check.words is None else self.check.words(value)
        text = self.format(value)
        if isinstance(value, tuple):
            text = f"[{', '.join(value)}]"
            if self.check.by_element:
                text = next(one for one in value if not self.check.accepts((one,)))
        return invalid_value(self.name, self.shown(text), words.replace("{name}", self.name))

    def shown(self, text: str) -> str:
        """Return the text as a message may show it: never a password."""
        return "[hidden]" if self.kind is Kind.PASSWORD else text

    def format(self, value: Value) -> str:
        """Return the text that `parse` turns into `value`; null is the empty text."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return java_double(value)
        return str(value)

    def _convert(self, text: str) -> Value:
        kind = self.kind
        if kind in _BITS:
            return self._integer(text, _BITS[kind])
        if kind is Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise self._not_of_its_kind(text, "must be true or false", "Expected value to be either true or false")
            return text.lower() == "true"
        if kind is Kind.DOUBLE:
            try:
                value = float(text)
            except ValueError:
                value = float("nan")
            if value != value:  # noqa: PLR0124  # NaN
                raise self._not_of_its_kind(text, "must be a number", self._not_a_number)
            return value
        if kind is Kind.LIST:
            # A regular expression with the spaces around a comma would look at a run of spaces once for each of them.
            return tuple(one.strip() for one in text.split(",")) if text else ()
        return text

    def _integer(self, text: str, bits: int) -> int:
        if _INTEGER.fullmatch(text) is None:
            raise self._not_of_its_kind(text, "must be a whole number", self._not_a_number)
        try:
            value = int(text)
        except ValueError:  # more than 4,300 digits, which Python does not read
            value = 2**bits
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise self._not_of_its_kind(text, f"must fit into {bits} bits", self._not_a_number)
        return value

    @property
    def _not_a_number(self) -> str:
        return f"Not a number of type {self.kind.name}"

    def _not_of_its_kind(self, text: str, reason: str, words: str) -> ConfigError:
        return ConfigError(self.name, text, reason, invalid_value(self.name, text, words))


def java_double(value: float) -> str:
    """Return a double as Java prints it: in digits from 0.001 to below ten million, else with an exponent."""
    if value != value:  # noqa: PLR0124  not a number
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}E{int(exponent)}"


_BITS: Final = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
