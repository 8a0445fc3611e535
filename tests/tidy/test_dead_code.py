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
    "emit",  # logging
    *("get_field_value", "settings_customise_sources"),  # pydantic-settings
    *("connection_made", "buffer_updated", "eof_received", "connection_lost", "pause_writing", "resume_writing"),  # asyncio
    *("start_request", "headers_received", "data_received"),  # tornado
    *("pytest_addoption", "pytest_configure"),
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
    "AuditedKafkaProducer": "is what programs of users import",
    "AuditedProducer": "as above",
    "DEFAULT_RELEASE": "is the default that the command repeats, because it imports this module only when it runs",
    "IS_NATIVE": "shows which twin was chosen",
    "ManualClock": "stands in for the system's clock, and keeps to its protocol beside it",
    "RELEASES": "are the choices that the command repeats, as above",
    "is_pending": "shows the state of a timer",
    "offset_record": "is one of the records that `OffsetsOfTopic` makes in bulk",
    "mute_reasons": "shows why a connection is not read",
    "parts_bytes": "joins the parts of a message, which the network never does",
    "stop_freezing": "gives a test process its garbage collections back",
    "_use_clmul": "chooses the checksum of other processors",
    "_use_crc32c": "as above",
    "write_offsets": "writes one checkpoint file, as Kafka or an older broker leaves it",
}
"""Definitions that only tests and benchmarks use, each with its reason to lie in the package."""

TEST_KIT = ("testing", "faults")
TESTING_PAGE = ROOT / "docs" / "testing.md"
"""The page about the test kit; the names in it are for programs of users."""

FORM_MAX = 80
"""A text with names of code, such as an annotation, is at most this long."""
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


def used_in(module: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names that a module uses at all, and those that it uses as methods are used: as attributes or in texts.

    Comments and docstrings use nothing, nor does `__all__`.
    """
    idle = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    idle |= {id(one) for node in module.body if _is_export(node) for one in nodes(node)}
    plain: set[str] = set()
    of_methods: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Attribute):
            of_methods.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            plain.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            plain.update(one.name for one in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in idle:
            of_methods.update(WORD.findall(node.value) if len(node.value) <= FORM_MAX else ())
    return plain | of_methods, of_methods


def _is_export(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


@functools.cache
def used() -> tuple[set[str], set[str]]:
    """Return what all installed modules use, as `used_in` does, with the words of native code and of the build."""
    found = [used_in(tree(path)) for path in sources(".py", folders=("pybroker", "container"))]
    paths = [*sources(*NATIVE, folders=("pybroker",)), ROOT / "pyproject.toml", ROOT / "setup.py"]
    others = {word for path in paths for word in WORD.findall(text(path))}
    return others.union(*(one for one, _ in found)), others.union(*(one for _, one in found))


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

    Dunder methods and overrides by a decorator are called by others, and the messages of an API are found by their names.
    """
    found = []
    for node in nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_registered = any(not isinstance(d, ast.Name) for d in node.decorator_list)
            is_registered |= isinstance(node, ast.ClassDef) and any(one.arg == "api_key" for one in node.keywords)
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


def methods(module: ast.Module) -> set[str]:
    """Return the names that are defined in classes of the module, and nowhere else in it."""
    inside = {
        one.name
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return inside - {one.name for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def test_a_variable_or_a_text_for_people_is_no_use_of_a_method() -> None:
    source = (
        "class One:\n    def first(self):\n        'As `second`.'\n    def second(self): ...\nfirst = One().third\nprint(first)"
    )
    assert methods(ast.parse(source)) == {"first", "second"}
    assert used_in(ast.parse(source)) == ({"One", "third", "first", "print"}, {"third"})
    assert used_in(ast.parse("__all__ = ['first']\ngetattr(one, 'second')")) == ({"getattr", "one", "second"}, {"second"})


@for_each(MODULES)
def test_definitions_are_used(path: Path) -> None:
    names, of_methods = used()
    inside = methods(tree(path))
    shown = WORD.findall(text(TESTING_PAGE)) if path.parent.name in TEST_KIT else ()
    defined = set(definitions(tree(path))) - set(shown)
    unused = [name for name in defined if name not in (of_methods if name in inside else names)]
    assert not [name for name in sorted(unused) if name not in CALLED_BY_LIBRARIES | FOR_TESTS.keys()]


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
