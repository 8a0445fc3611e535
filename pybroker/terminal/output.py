"""The output of a command: a table for a person, or a line of JSON for each row.

A library for tables takes longer to import than a whole `pybroker topics list` takes, so these are 40 lines of our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]

HEADING, GOOD, BAD = "1", "32", "31"
"""SGR codes: bold, green, red."""
GAP: Final = "  "
MISSING: Final = "-"


class Column(NamedTuple):
    """A column: its field in the rows, and how a value is shown. `is_bad` decides which values stand out."""

    field: str
    show: Callable[[Any], str] | None = None
    is_bad: Callable[[Any], bool] | None = None
    title: str = ""


def bad_if_any(value: object) -> bool:
    """Return whether a value is there, and not 0: for what should not be there."""
    return bool(value)


class Output:
    """Prints by `echo`, which gets a line. With `is_json`, rows are lines of JSON and other lines are left out."""

    def __init__(self, echo: Callable[[str], None], *, is_json: bool, has_colours: bool) -> None:
        self._echo = echo
        self.is_json, self._has_colours = is_json, has_colours

    def rows(self, columns: Sequence[Column | str], rows: Iterable[Row], *, none: str = "") -> None:
        """Print rows; for a person those columns, and the line `none` when there is no row. JSON has all fields."""
        if self.is_json:
            for row in rows:
                self._echo(json.dumps(row, ensure_ascii=False))
            return
        listed = list(rows)
        if not listed and none:
            self._echo(none)
        elif listed:
            self._table([Column(one) if isinstance(one, str) else one for one in columns], listed)

    def fields(self, columns: Sequence[Column | str], row: Row) -> None:
        """Print one row: for a person a line for each field."""
        if self.is_json:
            self._echo(json.dumps(row, ensure_ascii=False))
            return
        listed = [Column(one) if isinstance(one, str) else one for one in columns]
        width = max(len(_title(column)) for column in listed)
        for column in listed:
            value = row.get(column.field)
            text = _text(column, value)
            code = BAD if column.is_bad is not None and column.is_bad(value) else ""
            self._echo(f"{self.styled(_title(column).ljust(width), HEADING)}{GAP}{self.styled(text, code)}".rstrip())

    def line(self, text: str = "", code: str = "") -> None:
        """Print a line for a person."""
        if not self.is_json:
            self._echo(self.styled(text, code))

    def done(self, text: str, **fields: object) -> None:
        """Print what was done: a line for a person, or an object with these fields."""
        self._echo(json.dumps(fields, ensure_ascii=False) if self.is_json else text)

    def styled(self, text: str, code: str) -> str:
        """Return the text in a colour, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colours and code and text else text

    def _table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        texts = [[_text(column, row.get(column.field)) for column in columns] for row in rows]
        widths = [max(len(_title(column)), *(len(line[at]) for line in texts)) for at, column in enumerate(columns)]
        are_numbers = [_are_numbers([row.get(column.field) for row in rows]) for column in columns]

        def placed(text: str, at: int) -> str:
            if are_numbers[at]:
                return text.rjust(widths[at])
            return text.ljust(widths[at]) if at < len(columns) - 1 else text

        self._echo(self.styled(GAP.join(placed(_title(one), at) for at, one in enumerate(columns)), HEADING))
        for row, line in zip(rows, texts, strict=True):
            cells = []
            for at, (column, text) in enumerate(zip(columns, line, strict=True)):
                is_bad = column.is_bad is not None and column.is_bad(row.get(column.field))
                cells.append(self.styled(placed(text, at), BAD if is_bad else ""))
            self._echo(GAP.join(cells).rstrip())


def _are_numbers(values: Sequence[object]) -> bool:
    """Return whether all values that are there are numbers, and there are some."""
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(value, int | float) for value in there)


def _title(column: Column) -> str:
    return column.title or column.field.replace("_", " ").upper()


def _text(column: Column, value: Any) -> str:
    if value is None:
        return MISSING
    if column.show is not None:
        return column.show(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or MISSING
    return printable(str(value)) or MISSING


def printable(text: str) -> str:
    """Return a text of a client in one line, without what a terminal would take for a command."""
    return text if text.isprintable() else repr(text)[1:-1]
