"""Our own kafka-*.sh commands, run as the scripts of an image run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pybroker
from testing.process.tool_runner import Ran

ENTRY = Path(pybroker.__file__).parent / "tools" / "__main__.py"
TIMEOUT_S = 120


def run_command(
    name: str, *arguments: str, given: str = "", folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ran:
    """Run a command to its end, with `given` to read on its standard input."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(ENTRY), name, *arguments],
        input=given.encode(), capture_output=True, timeout=TIMEOUT_S, check=False, cwd=folder,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


class OurCommands:
    """A runner of tools by their names without `kafka-`; `folder` has the files that their arguments name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, tool: str, *arguments: str, given: str = "") -> Ran:
        return run_command(f"kafka-{tool}", *arguments, given=given, folder=self._folder)

    def close(self) -> None:
        """Do nothing, because no process is left."""
