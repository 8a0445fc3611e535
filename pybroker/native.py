"""Chooses between the native part of a module and its Python twin, in one way for all packages.

A module `x.py` with a native part has two siblings. `_x_python.py` has the contract in its docstrings. `_x_native` does the same
faster; its source is `_x_native.pyx`, or `_x_python.py` itself with the types of `_x_native.pxd`. `x.py` imports the names from
the Python twin, where a reader and the type checker find them, and ends with

    IS_NATIVE: Final = choose(_x_python, globals())

The native part is used where it was built for this interpreter. `PYBROKER_PURE=1` in the environment forces every twin. A part
that was built and cannot be used is an error: otherwise the broker would be slow, and no line of its log would give the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import ModuleType

SWITCH: Final = "PYBROKER_PURE"
PARTS: Final = (
    "api.dispatch",
    "api.fetch.usual",
    "api.produce.one_partition",
    "api.produce.repeats",
    "api.quotas.limited",
    "clock",
    "coordinator.offset_loops",
    "log.end",
    "log.file_end",
    "log.slices",
    "log.tail",
    "metrics.counts",
    "network.connection",
    "network.counters",
    "network.receiver",
    "network.sender",
    "network.state",
    "protocol.codec",
    "protocol.forms",
    "records.conversions",
    "records.kernels",
    "records.sections",
    "replication.leading",
    "replication.partition_data",
    "replication.reading",
    "security.quotas.usage",
    "sharing.turns.watch",
    "spark.columns",
)
"""All modules of the package that have a native part."""

_COST: Final = "small requests cost up to four times the CPU"
_BUILD: Final = "Install a C compiler and Python's headers, then install pybroker again from its source"
_REMEDY: Final = f"install pybroker again from its source, or set {SWITCH}=1 to run without native parts"

_chosen: dict[str, bool] = {}


class NativePartError(ImportError):
    """A native part was built and cannot be used. The message is one line for a person and names the file."""


def is_wanted() -> bool:
    """Return whether native parts are used where they were built. Raises NativePartError if the switch is neither 0 nor 1."""
    value = os.environ.get(SWITCH, "")
    if value not in {"", "0", "1"}:
        raise NativePartError(f"{SWITCH}={value}: must be 1, for pure Python, or 0")
    return value != "1"


def choose(twin: ModuleType, namespace: dict[str, Any]) -> bool:
    """Replace the names that `namespace` has from the Python twin by those of the native part, if it was built and is wanted.

    `twin.__all__` lists the names; the native part must have all of them. Returns whether the native part is used. Raises
    NativePartError.
    """
    place, _, file = twin.__name__.rpartition(".")
    stem = file.removesuffix("_python")
    module = extension(f"{place}.{stem}_native")
    if module is not None:
        missing = [name for name in twin.__all__ if not hasattr(module, name)]
        if missing:
            raise NativePartError(f"{module.__file__} has no {', '.join(missing)}: it belongs to another version; {_REMEDY}")
        namespace.update({name: getattr(module, name) for name in twin.__all__})
    _chosen[_part(place, stem)] = module is not None
    return module is not None


def extension(name: str) -> ModuleType | None:
    """Return the extension module of this full name, or None if it is not wanted or was not built. Raises NativePartError."""
    if not is_wanted():
        return None
    spec = importlib.util.find_spec(name)
    if spec is None:
        _refuse_foreign(name)
        return None
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise NativePartError(f"{spec.origin} was built and cannot be loaded: {error}; {_REMEDY}") from error


def parts() -> dict[str, bool]:
    """Return for each module that has a native part whether that is used, or would be if the module were imported."""
    found = dict(_chosen)
    for part in PARTS:
        if part not in found:
            found[part] = is_wanted() and importlib.util.find_spec(sibling(part, "native")) is not None
    return dict(sorted(found.items()))


def summary() -> str:
    """Return one line for a person: how many parts are native, and which are not, why, and what that means."""
    found = parts()
    pure = [part for part, is_native in found.items() if not is_native]
    if not pure:
        return f"Native: all {len(found)} parts"
    if not is_wanted():
        return f"Native: none of {len(found)} parts, because of {SWITCH}=1"
    built = "none" if len(pure) == len(found) else f"all but {', '.join(pure)}"
    return f"Native: {built} of {len(found)} parts were built, so {_COST}. {_BUILD}"


def is_lacking() -> bool:
    """Return whether a part that is wanted was not built."""
    return is_wanted() and not all(parts().values())


def sibling(part: str, kind: str) -> str:
    """Return the full name of a part's Python twin (`kind` is "python") or of its extension ("native")."""
    place, _, stem = f"pybroker.{part}".rpartition(".")
    return f"{place}._{stem}_{kind}"


def _part(place: str, stem: str) -> str:
    return f"{place}.{stem.removeprefix('_')}".removeprefix("pybroker.")


def _refuse_foreign(name: str) -> None:
    """Raise NativePartError if the extension was built, but only for other interpreters or platforms."""
    parent, _, stem = name.rpartition(".")
    spec = importlib.util.find_spec(parent)
    folders = [] if spec is None else spec.submodule_search_locations or []
    for path in (path for folder in folders for path in sorted(Path(folder).glob(f"{stem}.*")) if path.suffix in {".so", ".pyd"}):
        ours = EXTENSION_SUFFIXES[0]
        raise NativePartError(f"{path} was built for another Python: this one loads {stem}{ours} only; {_REMEDY}")


def _import_all() -> int:
    """Import every part, print which are native, and return 0 if all are: the test of a wheel, `python -m pybroker.native`."""
    for part in PARTS:
        importlib.import_module(f"pybroker.{part}")
    # This module runs as `__main__`; the parts have registered with the one that they import.
    chosen = importlib.import_module("pybroker.native")
    print(chosen.summary())  # noqa: T201
    return 0 if all(chosen.parts().values()) else 1


if __name__ == "__main__":
    import sys

    sys.exit(_import_all())
