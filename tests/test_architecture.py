"""What import-linter and mypy do not see: the imports of native parts, tuples without their class, numbers by position."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import tomllib
from pathlib import Path

import pytest

import pybroker

ROOT = Path(pybroker.__file__).parent
PROJECT = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
LAYERS: list[str] = next(
    contract["layers"] for contract in PROJECT["tool"]["importlinter"]["contracts"] if contract["name"] == "Imports go down only"
)
DEPTH = {package.strip().removeprefix("pybroker."): depth for depth, row in enumerate(LAYERS) for package in row.split("|")}
NATIVE = sorted(ROOT.rglob("*.pyx"))
MAKERS = {"new_tuple", "_new_header"}
"""Names of `tuple.__new__`, which knows neither the number of a class's fields nor their defaults."""


def test_there_are_native_parts_to_look_at() -> None:
    assert len(NATIVE) > 3


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_imports_of_native_parts_go_down_only(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    imported = set(re.findall(r"(?m)^\s*(?:from|import|cimport) pybroker\.(\w+)", path.read_text()))
    above = {package for package in imported - {own} if DEPTH[package] <= DEPTH[own]}
    assert not above, f"{own} imports what is not below it"


def made_tuples() -> list[tuple[str, str, int]]:
    """Return module, class and number of values of each tuple that is made without calling its class."""
    made = []
    for path in sorted(ROOT.rglob("*.py")):
        module = ".".join(("pybroker", *path.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                cls, values = node.args
                assert isinstance(cls, ast.Name)
                assert isinstance(values, ast.Tuple), f"{module}:{node.lineno}: the values have to stand there, to be counted"
                assert not any(isinstance(value, ast.Starred) for value in values.elts)
                made.append((module, cls.id, len(values.elts)))
    return made


def test_a_tuple_that_is_made_without_its_class_has_all_of_its_fields() -> None:
    made = made_tuples()
    assert made
    for module, name, count in made:
        assert count == len(getattr(importlib.import_module(module), name)._fields), f"{module}: {name}"


NUMBERS = {"int", "int | None", "float"}
IDS = {"Offset", "LeaderEpoch", "ProducerId", "ProducerEpoch"}
"""What mypy keeps apart from numbers and from each other, but not two of a kind."""
NAMED = [
    "api", "broker", "commands", "config", "coordinator", "doctor", "log", "metadata", "metrics", "network", "protocol",
    "purgatory", "records", "replication",
]  # fmt: skip
"""Packages whose functions take two numbers of a kind side by side by name, so that they cannot be swapped."""
PLACES = {("position", "end"), ("position", "size"), ("position", "length"), ("length", "position"), ("position", "count")}
"""Where bytes lie, in the order that every reader of bytes and files has; by position, as they are read for each record."""
BY_POSITION = {
    "between": "low and high, as they are read",
    "between_or": "low and high, as they are read",
    "increment_sequence": "a sum, whose terms may change places",
    "_record": "called for each record",
    "_read_record": "called for each record",
    "_read": "called for each number of a record",
    "add": "on the hot path, where a call by position is a third of a call by name",
    "append_one": "on the hot path",
    "append_usual": "on the hot path",
    "at_once": "on the hot path",
    "encode_response": "on the hot path",
    "find_batch": "on the hot path",
    "_find": "on the hot path",
    "should_roll": "on the hot path",
    "observe_request": "on the hot path, and in C",
}


def are_of_a_kind(first: ast.arg, second: ast.arg) -> bool:
    if (first.arg, second.arg) in PLACES or first.arg == "fd" or first.annotation is None or second.annotation is None:
        return False
    one, other = ast.unparse(first.annotation), ast.unparse(second.annotation)
    return {one, other} <= NUMBERS or (one.removesuffix(" | None") == other.removesuffix(" | None") and one.split(" ")[0] in IDS)


@pytest.mark.parametrize("package", NAMED)
def test_numbers_side_by_side_are_passed_by_name(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        if path.with_name(path.name.replace("_python.py", "_native.pyx")) in NATIVE or path.stem == "_tail_python":
            continue  # the twin of a native part, to which numbers are given by position
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in BY_POSITION:
                arguments = [*node.args.posonlyargs, *node.args.args]
                if any(itertools.starmap(are_of_a_kind, itertools.pairwise(arguments))):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not found


def test_every_function_that_takes_numbers_by_position_is_there() -> None:
    names = {
        node.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    native = {name for path in NATIVE for name in re.findall(r"(?m)^\s*(?:cp?)?def (?:[\w ]+ )?(\w+)\(", path.read_text())}
    assert set(BY_POSITION) <= names | native
