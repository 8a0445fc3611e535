"""Lists names in a text for a person, without making it long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMED_MAX: Final = 5


def listed(names: Sequence[Any], text_of: Callable[[Any], str] = str) -> str:
    """Return the first names, and how many more there are: "a, b, c, d, e and 3 more". `text_of` is called for the first only."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(map(text_of, names[:NAMED_MAX])) + more
