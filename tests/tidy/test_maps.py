"""The docstring of a package is its map: each module and each package in it stands there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from testing.places import ROOT

WITHOUT_MAP = {
    "pybroker": "the table of docs/design/architecture.md is its map",
    "pybroker/api/handlers": "one module per API",
    "pybroker/protocol/messages": "one module per API",
}
PACKAGES = sorted(path.parent for base in ("pybroker", "testing") for path in (ROOT / base).rglob("__init__.py"))
INTEGRATION = ROOT / "integration"

ROW = re.compile(r"^ *([\w*]+/?(?:, [\w*]+/?)*)(?:  |$)", re.MULTILINE)
"""A row of a map: names on the left, and what they are behind two spaces."""


def missing(package: Path) -> list[str]:
    """Return the modules and packages in `package` that its map lacks. Twins are covered by what stands for them."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    modules = [path.stem for path in package.glob("*.py") if not path.stem.startswith("_")]
    packages = [path.parent.name for path in package.glob("*/__init__.py")]
    named = {name.rstrip("/") for names in ROW.findall(text) for name in names.split(", ")}
    return sorted({*modules, *packages} - named)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_stands_in_the_map_of_its_package(package: Path) -> None:
    if str(package.relative_to(ROOT)) not in WITHOUT_MAP:
        assert missing(package) == []


def test_each_integration_test_lies_in_a_folder_of_the_map() -> None:
    assert missing(INTEGRATION) == ["conftest"]
    assert [path.name for path in INTEGRATION.glob("test_*.py")] == []


def test_a_module_that_is_not_in_the_map_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""Things.\n\none, zero    the first, before two\ninner/  more\n"""\n')
    (tmp_path / "inner").mkdir()
    for name in ("inner/__init__", "zero", "one", "two", "_one_python"):
        (tmp_path / f"{name}.py").write_text("")
    assert missing(tmp_path) == ["two"]


def rows_torn(text: str) -> list[str]:
    """Return the lines of tables that a wrapped row has left."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith("|") and (line == "|" or not line.endswith("|"))]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_in_docstrings_are_whole(package: Path) -> None:
    torn = {path.name: rows_torn(ast.get_docstring(ast.parse(path.read_text())) or "") for path in package.glob("*.py")}
    assert not {name: rows for name, rows in torn.items() if rows}


def test_a_torn_row_is_found() -> None:
    assert rows_torn("| a | b |\n|---|---|\n| a long one | b\n|") == ["| a long one | b", "|"]
