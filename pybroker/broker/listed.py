"""Lists names in a text for a person, without making it long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMED_MAX: Final = 5


def listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are: "a, b, c, d, e and 3 more"."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(map(str, names[:NAMED_MAX])) + more
