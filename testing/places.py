"""The paths of this checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
JAVA_SOURCES: Final = ROOT / "testing" / "java"
"""Programs that use Apache Kafka's own classes; Java compiles them as it runs them."""
GO_SOURCES: Final = ROOT / "testing" / "go"
"""Programs with clients that exist in Go only: a folder for each, built before it runs."""
CLIENT_PROGRAMS: Final = ROOT / "testing" / "clients"
