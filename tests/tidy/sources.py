"""The files of the repository that these rules are about."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pybroker"
CODE = ("pybroker", "testing", "tests", "integration", "benchmarks", "container")
GENERATED = {"docs/apis.md", "docs/configuration.md"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def files(folder: str) -> tuple[Path, ...]:
    return tuple(path for path in (ROOT / folder).rglob("*") if path.suffix)


def sources(*suffixes: str, folders: tuple[str, ...] = CODE) -> list[Path]:
    """Return every file of these folders with one of these suffixes, in order."""
    return sorted(path for folder in folders for path in files(folder) if path.suffix in suffixes)


def documents() -> list[Path]:
    """Return every text that a person reads outside of the code."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


@functools.cache
def text(path: Path) -> str:
    return path.read_text()


@functools.cache
def tree(path: Path) -> ast.Module:
    """Parse a source, once for all tests, and without collections of garbage.

    They go through all trees that are kept, again and again, and would take twice as long as the parser.
    """
    gc.disable()
    try:
        return ast.parse(text(path))
    finally:
        gc.enable()


@functools.cache
def nodes(root: ast.AST) -> Sequence[ast.AST]:
    """Return what `ast.walk` yields, once for all tests that look at the same tree, and without the contexts of names."""
    found = [root]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return found


def for_each(paths: Sequence[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make one test of a check of a file: it checks every file of `paths`, and fails with the faults of all of them.

    One case for each file and rule would be a third of all cases of the unit tests, and most of their time is that of pytest.
    """

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            faults = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    faults.append(f"{relative(path)}: {error}")
            assert paths, "no file is checked"
            assert not faults, "\n".join(faults)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
