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
    "DEFAULT_RELEASE": "is the default that the command repeats, because it imports this module only when it runs",
    "ManualClock": "stands in for the system's clock, and keeps to its protocol beside it",
    "RELEASES": "are the choices that the command repeats, as above",
    "is_pending": "shows the state of a timer",
    "mute_reasons": "shows why a connection is not read",
    "parts_bytes": "joins the parts of a message, which the network never does",
    "stop_freezing": "gives a test process its garbage collections back",
    "_use_clmul": "chooses the checksum of other processors",
    "_use_crc32c": "as above",
    "write_offsets": "writes one checkpoint file, as Kafka or an older broker leaves it",
}
"""Definitions that only tests and benchmarks use, each with its reason to lie in the package."""

WORD = re.compile(r"[A-Za-z_]\w*")
NATIVE = (".pyx", ".pxd", ".pxi")
NATIVE_DEFINITION = re.compile(r"^ *(?:cpdef|cdef|def) (?!class |extern |struct |enum )[^=\n(]*?(\w+)\(", re.MULTILINE)
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
    paths = [*sources(".py", *NATIVE, folders=("pybroker", "container")), ROOT / "pyproject.toml", ROOT / "setup.py"]
    return Counter(word for path in paths for word in WORD.findall(text(path)))


@functools.cache
def native_definitions() -> Counter[str]:
    """Count the definitions of native code by their names."""
    paths = sources(*NATIVE, folders=("pybroker",))
    return Counter(name for path in paths for name in NATIVE_DEFINITION.findall(text(path)))


@functools.cache
def words_with_tests() -> Counter[str]:
    """Count the words of all code."""
    return Counter(word for path in [*sources(".py"), ROOT / "conftest.py"] for word in WORD.findall(text(path)))


def definitions(module: ast.Module) -> list[str]:
    """Return the names of functions, classes, methods and the module's constants.

    Dunder methods and overrides by a decorator are called by others.
    """
    found = []
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_registered = any(not isinstance(d, ast.Name) for d in node.decorator_list)
            if not (node.name.startswith("__") or is_registered):
                found.append(node.name)
    for statement in module.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets += [statement.target] if isinstance(statement, ast.AnnAssign) else []
        found += [target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("__")]
    return found


def test_each_kind_of_definition_is_found() -> None:
    source = "LIMIT = 1\nNAME: str = ''\n__all__ = []\nasync def run(): ...\nclass One:\n    def first(self): ...\n    size = 1"
    assert sorted(definitions(ast.parse(source))) == ["LIMIT", "NAME", "One", "first", "run"]
    source = "cdef inline int first(int a):\n    return second(a)\ndef third(x): ...\n    cpdef fourth(self)\ncdef class Tail:"
    assert NATIVE_DEFINITION.findall(source) == ["first", "third", "fourth"]


def test_every_exception_is_needed() -> None:
    defined = {name for path in MODULES for name in definitions(tree(path))} | native_definitions().keys()
    assert defined >= CALLED_BY_LIBRARIES | FOR_TESTS.keys()


@for_each(MODULES)
def test_definitions_are_used(path: Path) -> None:
    here = Counter(definitions(tree(path)))
    unused = [name for name in here if words()[name] <= here[name] and name not in CALLED_BY_LIBRARIES | FOR_TESTS.keys()]
    assert not unused


@for_each(sources(*NATIVE, folders=("pybroker",)))
def test_native_definitions_are_used(path: Path) -> None:
    unused = [name for name in NATIVE_DEFINITION.findall(text(path)) if words()[name] <= native_definitions()[name]]
    assert not [name for name in unused if not name.startswith("__") and name not in FOR_TESTS]


@for_each(SUPPORT)
def test_support_of_tests_is_used(path: Path) -> None:
    here = Counter(definitions(tree(path)))
    unused = [name for name in here if words_with_tests()[name] <= here[name] and name not in SUPPORT_CALLED_BY_LIBRARIES]
    assert not unused


def test_every_exception_of_support_is_needed() -> None:
    assert {name for path in SUPPORT for name in definitions(tree(path))} >= SUPPORT_CALLED_BY_LIBRARIES
