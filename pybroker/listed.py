"""Names in a text for a person: a list that is not long, and those that may have been meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NAMED_MAX: Final = 5
SIMILARITY: Final = 0.6
"""How alike a name must be to what was written, from 0 to 1, to be suggested."""


def listed(names: Sequence[Any], text_of: Callable[[Any], str] = str) -> str:
    """Return the first names, and how many more there are: "a, b, c, d, e and 3 more". `text_of` is called for the first only."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(map(text_of, names[:NAMED_MAX])) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ". Did you mean 'orders' or 'order'?" with other known names that are like `name`; nothing when there are none.

    It ends a sentence that names what does not exist, and that has no full stop.
    """
    import difflib  # noqa: PLC0415  only after a mistake

    similar = difflib.get_close_matches(name, [one for one in known if one != name], cutoff=SIMILARITY)
    return f". Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
