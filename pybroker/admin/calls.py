"""A request to the API, taken apart, and the errors that become responses."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

Json = dict[str, Any]

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
CONFLICT: Final = 409
UNAVAILABLE: Final = 503


class AdminError(Exception):
    """A request that cannot be carried out. The text is a sentence for a person."""

    def __init__(self, status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Call(NamedTuple):
    """A request, as a verb gets it.

    Attributes:
        names: the parts of the path that its template leaves open, by their names there.
        query: the parameters behind the path.
        body: the JSON object that was sent; empty without one.
    """

    names: dict[str, str]
    query: dict[str, str]
    body: Json

    def number(self, name: str, *, default: int, most: int) -> int:
        """Return a parameter that is a number from 0 to `most`. Raises AdminError."""
        text = self.query.get(name)
        if text is None:
            return min(default, most)
        if not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise AdminError(BAD_REQUEST, f"{name}={text}: it must be a number from 0 to {most}")
        return min(int(text), most)


def parts_of(path: str) -> tuple[list[str], dict[str, str]]:
    """Return the parts of a path, and the parameters behind it."""
    plain, _, query = path.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    if len(parameters := dict(given)) < len(given):
        raise AdminError(BAD_REQUEST, "a parameter is there twice")
    return [unquote(part) for part in plain.split("/")[1:]], parameters
