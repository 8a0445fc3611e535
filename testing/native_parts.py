"""Native parts that are older than what they are compiled from: tests that run them would test the code of yesterday."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pybroker import native
from testing.places import ROOT


def stale() -> list[str]:
    """Return the native parts that were built before their sources changed, or that are missing beside parts that were built.

    The list is empty without a compiler and with PYBROKER_PURE=1, because then no native part runs.
    """
    if not native.is_wanted():
        return []
    built = {part: importlib.util.find_spec(_module(part)) for part in native.PARTS}
    if not any(built.values()):
        return []
    return [
        part for part, spec in built.items() if spec is None or spec.origin is None or is_older(Path(spec.origin), sources(part))
    ]


def is_older(extension: Path, made_from: list[Path]) -> bool:
    """Return whether one of the sources was written after the extension."""
    return any(source.stat().st_mtime_ns > extension.stat().st_mtime_ns for source in made_from)


def sources(part: str) -> list[Path]:
    """Return what the part is compiled from: its own Cython text with its types, or else the text of its Python twin."""
    stem = ROOT / _module(part).replace(".", "/")
    own = [path for path in (stem.with_suffix(".pyx"), stem.with_suffix(".pxd")) if path.exists()]
    twin = stem.with_name(f"{stem.name.removesuffix('_native')}_python.py")
    return own if stem.with_suffix(".pyx").exists() else [*own, twin]


def _module(part: str) -> str:
    place, _, stem = part.rpartition(".")
    return f"pybroker.{place}._{stem}_native"
