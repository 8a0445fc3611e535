"""The error codes in a response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def codes_in(message: Any) -> Iterator[int]:
    """Yield the codes of the innermost elements of a response."""
    values = {name: getattr(message, name) for name in type(message).__slots__}
    inner = [value for value in values.values() if isinstance(value, list) and value]
    for one in (one for elements in inner for one in elements):
        yield from codes_in(one)
    if not inner:
        yield next(value for name, value in values.items() if name.endswith("error_code"))
