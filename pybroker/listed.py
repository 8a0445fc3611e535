"""Lists names in a text for a person, without making it long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMED_MAX: Final = 5
SHOWN_MAX: Final = 200


def listed(names: Sequence[Any], text_of: Callable[[Any], str] = str) -> str:
    """Return the first names, and how many more there are: "a, b, c, d, e and 3 more". `text_of` is called for the first only."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(map(text_of, names[:NAMED_MAX])) + more


def cut_short(name: str) -> str:
    """Return a name for a line of the log: a client chooses it, of up to 32,767 characters, and many lines may have one."""
    return name if len(name) <= SHOWN_MAX else f"{name[:SHOWN_MAX]}... ({len(name)} characters)"
