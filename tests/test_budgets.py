"""The size of things: the models of this kind of program fail by a centre that grows into a giant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pybroker

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
HANDLER_LINES_MAX = 250
"""A handler's file: its text, its cases, and nothing that another could use."""

ROOT = Path(pybroker.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 100


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    source = path.read_text()
    limit = HANDLER_LINES_MAX if path.parent.name == "handlers" else MODULE_LINES_MAX
    assert len(source.splitlines()) <= limit
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"
