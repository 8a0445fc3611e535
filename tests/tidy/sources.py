"""The files of the repository that these rules are about."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pybroker"
CODE = ("pybroker", "testing", "tests", "integration", "benchmarks", "container")
GENERATED = {"docs/apis.md", "docs/configuration.md"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def sources(*suffixes: str, folders: tuple[str, ...] = CODE) -> list[Path]:
    """Return every file of these folders with one of these suffixes, in order."""
    return sorted(path for folder in folders for suffix in suffixes for path in (ROOT / folder).rglob(f"*{suffix}"))


def documents() -> list[Path]:
    """Return every text that a person reads outside of the code."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


@functools.cache
def text(path: Path) -> str:
    return path.read_text()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))
