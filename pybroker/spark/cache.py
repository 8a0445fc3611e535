"""The cache folder, for files that are made or downloaded once: PYBROKER_CACHE_DIR, or `pybroker` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache folder, and create it if it is missing."""
    chosen = os.environ.get("PYBROKER_CACHE_DIR")
    users = os.environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen else (Path(users) if users else Path.home() / ".cache") / "pybroker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()
