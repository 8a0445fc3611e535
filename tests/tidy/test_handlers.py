"""Every handler begins with the same header: what it serves, how it behaves, its versions, what it lacks, and its source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import PACKAGE, for_each, tree

HANDLERS = sorted(path for path in (PACKAGE / "api" / "handlers").glob("*.py") if path.name != "__init__.py")
FIRST_LINE = re.compile(r"\w+ \(key \d+\), v\S+: .+")
SECTIONS = ("Behaviour\n", "Versions\n", "Not done\n", "Source: ")


def test_there_are_handlers_to_look_at() -> None:
    assert len(HANDLERS) > 35


@for_each(HANDLERS)
def test_a_handler_describes_what_it_serves(path: Path) -> None:
    header = ast.get_docstring(tree(path)) or ""
    assert FIRST_LINE.match(header)
    places = [header.find(f"\n{section}") for section in SECTIONS]
    assert -1 not in places, f"lacks {SECTIONS[places.index(-1)].strip()}"
    assert places == sorted(places), "has its sections in another order"
