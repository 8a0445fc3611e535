"""Every handler has tests in a file of its name, and begins with the same header.

The header has what the handler serves, how it behaves, its versions, what it lacks, and its source.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tidy.sources import PACKAGE, ROOT, for_each, tree

HANDLERS = sorted(path for path in (PACKAGE / "api" / "handlers").glob("*.py") if path.name != "__init__.py")
FIRST_LINE = re.compile(r"\w+ \(key \d+\), v\S+: .+")
TESTS = ROOT / "tests" / "api" / "handlers"
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


@for_each(HANDLERS)
def test_a_handler_has_tests_in_a_file_of_its_name(path: Path) -> None:
    tests = TESTS / f"test_{path.name}"
    assert tests.exists(), f"lacks {tests.relative_to(ROOT)}"
    assert any(getattr(node, "name", "").startswith("test_") for node in tree(tests).body), "its file has no test"


def test_every_file_of_tests_has_the_name_of_a_handler() -> None:
    assert {path.name.removeprefix("test_") for path in TESTS.glob("test_*.py")} <= {path.name for path in HANDLERS}
