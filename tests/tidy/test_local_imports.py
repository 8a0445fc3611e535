"""An import inside a function has a reason: its package's, which stands in the package's docstring, or its own, beside it.

ruff asks each such import for a `noqa` (PLC0415), except in the packages below.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.tidy.sources import PACKAGE, ROOT, for_each, nodes, sources, text, tree

EXTRA = {"confluent_kafka", "matplotlib", "numpy", "py4j", "pyarrow", "pyspark"}
"""Packages that the `spark` extra brings. The unit tests have only the first of them."""
FREE_PACKAGES = {
    "cli": None,
    "tools": None,
    "spark": EXTRA | {"pybroker.spark.report.pictures", "pybroker.spark.datasource.source"},
}
"""The packages with one reason for all of their local imports, and what may be imported so; None is anything."""
PHRASE = "inside a function"
"""The words of a package's docstring where it gives the reason."""
NOQA = re.compile(r"# noqa: PLC0415\W*(?P<reason>\w.*)?")


def local_imports(module: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    functions = [node for node in nodes(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {node for function in functions for node in nodes(function) if isinstance(node, ast.Import | ast.ImportFrom)}
    return sorted(found, key=lambda node: node.lineno)


def modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return what is imported: a package of others by its first name, a module of ours by its whole name."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    assert node.module is not None
    if not node.module.startswith("pybroker"):
        return [node.module.partition(".")[0]]
    return (
        [node.module]
        if (ROOT / f"{node.module.replace('.', '/')}.py").is_file()
        else [f"{node.module}.{a.name}" for a in node.names]
    )


def without_reason(module: ast.Module, code: str) -> list[int]:
    """Return the lines of local imports without a reason on the line, above it, or with the import just before."""
    lines, reasoned, faults = code.splitlines(), set[int](), []
    for node in local_imports(module):
        match = NOQA.search(lines[node.lineno - 1])
        above = node.lineno - 1
        if (match and match["reason"]) or above in reasoned or lines[above - 1].lstrip().startswith("#"):
            reasoned.add(node.end_lineno or node.lineno)
        else:
            faults.append(node.lineno)
    return faults


def package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def test_the_check_finds_an_import_without_a_reason() -> None:
    code = "def f():\n    import a  # noqa: PLC0415\n    import b  # noqa: PLC0415 - slow\n    import c  # noqa: PLC0415\n"
    assert without_reason(ast.parse(code), code) == [2]
    assert without_reason(ast.parse("import a\n"), "import a\n") == []
    above = "def f():\n    # slow\n    import a\n"
    assert without_reason(ast.parse(above), above) == []


@for_each([path for path in sources(".py", folders=("pybroker",)) if package(path) not in FREE_PACKAGES])
def test_local_imports_have_a_reason(path: Path) -> None:
    faults = without_reason(tree(path), text(path))
    assert not faults, f"imports inside functions without a reason, at lines {faults}"


@for_each([path for path in sources(".py", folders=("pybroker",)) if FREE_PACKAGES.get(package(path))])
def test_packages_import_inside_functions_only_what_their_reason_is_about(path: Path) -> None:
    allowed = FREE_PACKAGES[package(path)]
    assert allowed is not None
    faults = [name for node in local_imports(tree(path)) for name in modules(node) if name not in allowed]
    assert not faults, f"{', '.join(faults)} belongs to the top of the module"


def test_packages_give_their_reason_and_ruff_knows_no_others() -> None:
    for name in FREE_PACKAGES:
        docstring = ast.get_docstring(tree(PACKAGE / name / "__init__.py"))
        assert docstring is not None
        assert PHRASE in " ".join(docstring.split()), name
    ignores = tomllib.loads(text(ROOT / "pyproject.toml"))["tool"]["ruff"]["lint"]["per-file-ignores"]
    free = [pattern for pattern, rules in ignores.items() if "PLC0415" in rules and pattern.startswith("pybroker")]
    assert free == ["pybroker/{cli,tools,spark}/**"]
