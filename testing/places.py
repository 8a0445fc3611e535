"""The paths of this checkout, and of what the tests download and make once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
JAVA_SOURCES: Final = ROOT / "testing" / "java"
"""Programs that use Apache Kafka's own classes, compiled before they run."""
GO_SOURCES: Final = ROOT / "testing" / "go"
"""Programs with clients that exist in Go only: a folder for each, built before it runs."""
CLIENT_PROGRAMS: Final = ROOT / "testing" / "clients"


def cache_dir() -> Path:
    """Return the folder for everything that tests download: PYBROKER_CACHE_DIR, or `.cache/` in the repository."""
    chosen = os.environ.get("PYBROKER_CACHE_DIR")
    return Path(chosen) if chosen else ROOT / ".cache"
