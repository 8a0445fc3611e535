"""Sizes: programs of this kind fail by a centre that grows into a giant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import PACKAGE, for_each, nodes, relative, sources, text, tree

SOURCE_LINES_MAX = 500
TEST_LINES_MAX = 650
"""A file of tests is a list of cases of one subject, and is read one case at a time."""

FUNCTION_LINES_MAX = 60
NATIVE_FUNCTION_LINES_MAX = 70
"""A native function declares its variables before its work."""

NATIVE_FUNCTION = re.compile(r"^( *)(?:cpdef|cdef|def) (?!class |extern |struct |enum )[^=]*?(\w+)\(")
HANDLER_LINES_MAX = 250
"""A handler's file: its header, its cases, and nothing that another handler could use."""

HANDLERS = PACKAGE / "api" / "handlers"


def test_there_are_sources_to_look_at() -> None:
    assert len(sources(".py", folders=("pybroker",))) > 300
    assert len(sources(".pyx")) > 3


@for_each(sources(".py", ".pyx", ".pxd", ".pxi", ".h", ".java"))
def test_sources_stay_small(path: Path) -> None:
    is_test = relative(path).startswith(("tests/", "testing/", "integration/"))
    limit = HANDLER_LINES_MAX if path.parent == HANDLERS else TEST_LINES_MAX if is_test else SOURCE_LINES_MAX
    assert len(text(path).splitlines()) <= limit


@for_each(sources(".py"))
def test_functions_stay_small(path: Path) -> None:
    for node in nodes(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def native_functions(source: str) -> Iterator[tuple[str, int]]:
    """Yield name and length of each function of Cython; it ends before the next line that is not indented more."""
    lines = source.splitlines()
    for index, line in enumerate(lines):
        if (match := NATIVE_FUNCTION.match(line)) is not None:
            end = index + 1
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith((f"{match[1]} ", f"{match[1]})"))):
                end += 1
            yield match[2], len("\n".join(lines[index:end]).rstrip().splitlines())


def test_the_length_of_a_native_function_is_that_of_its_lines() -> None:
    source = "cdef int first(int a,\n    int b,\n) except -1:\n    cdef int c\n\n    return a\n\n\ndef second(): return 1\n"
    assert [*native_functions(source)] == [("first", 6), ("second", 1)]


@for_each(sources(".pyx", ".pxd", ".pxi"))
def test_native_functions_stay_small(path: Path) -> None:
    for name, length in native_functions(text(path)):
        assert length <= NATIVE_FUNCTION_LINES_MAX, f"{name} has {length} lines"


def test_there_are_native_functions_to_look_at() -> None:
    assert sum(1 for path in sources(".pyx", ".pxi") for _ in native_functions(text(path))) > 50
