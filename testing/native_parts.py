"""Native parts that are older than what they are compiled from: tests that run them would test the code of yesterday."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final

from pybroker import native
from testing.places import ROOT

_CIMPORT: Final = re.compile(r"(?m)^from (pybroker[\w.]*) cimport \(?([\w, *]+)")
_INCLUDE: Final = re.compile(r'(?m)^include "([\w.]+)"')
_HEADER: Final = re.compile(r'(?:cdef extern from|#include) "([\w.]+)"')


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
    """Return what the part is compiled from: its Cython text or else its Python twin, its types, and what these use."""
    stem = ROOT / _module(part).replace(".", "/")
    twin = stem.with_name(f"{stem.name.removesuffix('_native')}_python.py")
    text = stem.with_suffix(".pyx") if stem.with_suffix(".pyx").exists() else twin
    found = {text: None, **dict.fromkeys(_used(text))}
    types = stem.with_suffix(".pxd")
    if types.exists():
        found |= {types: None, **dict.fromkeys(_used(types))}
    return list(found)


def _used(source: Path) -> list[Path]:
    """Return the types, included text and C headers of ours that a source uses, and what these use in turn."""
    text = source.read_text()
    modules = [name for groups in _CIMPORT.findall(text) for name in _cimported(*groups)]
    direct = [
        *(path for name in modules if (path := ROOT / f"{name.replace('.', '/')}.pxd").exists()),
        *(source.with_name(name) for name in _INCLUDE.findall(text)),
        *(path for name in _HEADER.findall(text) if (path := source.with_name(name)).exists()),
    ]
    return [one for path in direct for one in (path, *(_used(path) if path.suffix != ".h" else ()))]


def _cimported(module: str, names: str) -> list[str]:
    """Return the modules that `from module cimport names` may mean: the module, or modules in a package of that name."""
    return [module, *(f"{module}.{name.split()[0]}" for name in names.split(",") if name.split())]


def _module(part: str) -> str:
    return native.sibling(part, "native")
