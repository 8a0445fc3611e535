"""The paths of this checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
JAVA_SOURCES: Final = ROOT / "testing" / "java"
"""Programs that use Apache Kafka's own classes; Java compiles them as it runs them."""
CLIENT_PROGRAMS: Final = ROOT / "testing" / "clients"
