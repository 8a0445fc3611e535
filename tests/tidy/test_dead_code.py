"""Code without a use is not kept: every definition is used outside of itself, and not by tests alone."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path

from tests.tidy.sources import ROOT, for_each, nodes, sources, text, tree

CALLED_BY_LIBRARIES = {
    *("list_commands", "get_command"),  # click
    *("get_field_value", "settings_customise_sources"),  # pydantic-settings
    *("connection_made", "buffer_updated", "eof_received", "connection_lost", "pause_writing"),  # asyncio
    *(
        "streamReader",
        "initialOffset",
        "getDefaultReadLimit",
        "latestOffset",
        "prepareForTriggerAvailableNow",
        "reportLatestOffset",
    ),
}
"""Methods that a library's protocol names; the last line is Spark's."""

FOR_TESTS = {
    "ManualClock": "stands in for the system's clock, and keeps to its protocol beside it",
    "is_pending": "shows the state of a timer",
    "mute_reasons": "shows why a connection is not read",
    "parts_bytes": "joins the parts of a message, which the network never does",
    "stop_freezing": "gives a test process its garbage collections back",
    "write_offsets": "writes one checkpoint file, as Kafka or an older broker leaves it",
}
"""Definitions that only tests and benchmarks use, each with its reason to lie in the package."""

WORD = re.compile(r"[A-Za-z_]\w*")
MODULES = sources(".py", folders=("pybroker",))
SUPPORT = sources(".py", folders=("testing",))
SUPPORT_CALLED_BY_LIBRARIES = {
    *("on_partitions_assigned", "on_partitions_revoked"),  # the clients' listeners
    *("_process_events", "_write_to_self"),  # asyncio
    *("pytest_runtest_logreport", "pytest_terminal_summary"),
}


@functools.cache
def words() -> Counter[str]:
    """Count the words of what is installed."""
    paths = [*sources(".py", ".pyx", ".pxd", folders=("pybroker", "container")), ROOT / "pyproject.toml", ROOT / "setup.py"]
    return Counter(word for path in paths for word in WORD.findall(text(path)))


@functools.cache
def words_with_tests() -> Counter[str]:
    """Count the words of all code."""
    return Counter(word for path in [*sources(".py"), ROOT / "conftest.py"] for word in WORD.findall(text(path)))


def definitions(module: ast.Module) -> list[str]:
    """Return the names of functions, classes and methods; dunder methods and overrides by a decorator are called by others."""
    found = []
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_registered = any(not isinstance(d, ast.Name) for d in node.decorator_list)
            if not (node.name.startswith("__") or is_registered):
                found.append(node.name)
    return found


def test_every_exception_is_needed() -> None:
    defined = {name for path in MODULES for name in definitions(tree(path))}
    assert defined >= CALLED_BY_LIBRARIES | FOR_TESTS.keys()


@for_each(MODULES)
def test_definitions_are_used(path: Path) -> None:
    here = Counter(definitions(tree(path)))
    unused = [name for name in here if words()[name] <= here[name] and name not in CALLED_BY_LIBRARIES | FOR_TESTS.keys()]
    assert not unused


@for_each(SUPPORT)
def test_support_of_tests_is_used(path: Path) -> None:
    here = Counter(definitions(tree(path)))
    unused = [name for name in here if words_with_tests()[name] <= here[name] and name not in SUPPORT_CALLED_BY_LIBRARIES]
    assert not unused


def test_every_exception_of_support_is_needed() -> None:
    assert {name for path in SUPPORT for name in definitions(tree(path))} >= SUPPORT_CALLED_BY_LIBRARIES
