"""Where things of this checkout are."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
JAVA_SOURCES: Final = ROOT / "testing" / "java"
"""Programs that Java compiles as it runs them, with Apache Kafka's own classes."""
CLIENT_PROGRAMS: Final = ROOT / "testing" / "clients"
