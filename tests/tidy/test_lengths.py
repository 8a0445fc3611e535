"""Sizes: programs of this kind fail by a centre that grows into a giant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, relative, sources, text, tree

SOURCE_LINES_MAX = 500
TEST_LINES_MAX = 650
"""A file of tests is a list of cases of one subject, and is read one case at a time."""

FUNCTION_LINES_MAX = 60
HANDLER_LINES_MAX = 250
"""A handler's file: its header, its cases, and nothing that another handler could use."""

HANDLERS = PACKAGE / "api" / "handlers"


def test_there_are_sources_to_look_at() -> None:
    assert len(sources(".py", folders=("pybroker",))) > 300
    assert len(sources(".pyx")) > 3


@pytest.mark.parametrize("path", sources(".py", ".pyx", ".pxd"), ids=relative)
def test_sources_stay_small(path: Path) -> None:
    is_test = relative(path).startswith(("tests/", "testing/", "integration/"))
    limit = HANDLER_LINES_MAX if path.parent == HANDLERS else TEST_LINES_MAX if is_test else SOURCE_LINES_MAX
    assert len(text(path).splitlines()) <= limit


@pytest.mark.parametrize("path", sources(".py"), ids=relative)
def test_functions_stay_small(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"
