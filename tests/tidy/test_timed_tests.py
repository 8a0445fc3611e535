"""A test that judges CPU time is marked, and gets several attempts: other processes share the machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT, for_each, text, tree

JUDGES = {"watched", "run_watched", "timed_turns", "thread_time", "thread_time_ns", "process_time", "perf_counter"}
NAMED = re.compile(rf"\b(?:{'|'.join(sorted(JUDGES))})\b")
MARK = "pytest.mark.judges_time"
SOURCES = sorted((ROOT / "tests").rglob("test_*.py"))


def unmarked(module: ast.Module) -> Iterator[str]:
    """Yield the tests that name one of `JUDGES`, or a function of their module that does, without the mark."""
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    marks = [node.value for node in module.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    if any(MARK in ast.unparse(mark) for mark in marks):
        return
    judges = set(JUDGES)
    while more := {name for name, node in functions.items() if name not in judges and _named(node) & judges}:
        judges |= more
    for name in sorted(judges & {name for name in functions if name.startswith("test_")}):
        if MARK not in map(ast.unparse, functions[name].decorator_list):
            yield name


def _named(function: ast.AST) -> set[str]:
    own = {node.name for node in ast.walk(function) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    called = {node.func for node in ast.walk(function) if isinstance(node, ast.Call)}
    return {ast.unparse(one).rpartition(".")[2] for one in called} - own


@for_each(SOURCES)
def test_a_test_that_judges_time_is_marked(path: Path) -> None:
    found = [*unmarked(tree(path))] if NAMED.search(text(path)) else []
    assert not found, f"{', '.join(found)}: mark it with {MARK}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_a():\n    with watched() as turns: ...", ["test_a"]),
        ("def run():\n    run_watched(main)\ndef test_a():\n    run()", ["test_a"]),
        ("def test_a():\n    time.thread_time_ns()", ["test_a"]),
        ("@pytest.mark.judges_time\ndef test_a():\n    with watched() as turns: ...", []),
        ("pytestmark = pytest.mark.judges_time\ndef test_a():\n    run_watched(main)", []),
        ("def test_a():\n    def watched(): ...\n    watched()", []),
    ],
)
def test_the_rule_finds_tests_without_the_mark(source: str, found: list[str]) -> None:
    assert [*unmarked(ast.parse(source))] == found
