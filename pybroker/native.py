"""The optional extensions: one is used where it was built, unless `PYBROKER_PURE=1` in the environment forces its twin."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def is_wanted() -> bool:
    """Whether extensions are to be used where they were built."""
    return os.environ.get("PYBROKER_PURE", "0") in {"", "0"}


def extension(name: str) -> ModuleType | None:
    """The extension of this full name; None where it is not wanted or was not built."""
    if not is_wanted():
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
