"""Java in short runs: the options that make them cheap, and programs that are compiled once for many runs."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from testing.waiting import LONG_WAIT_S

QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for JVMs that run for seconds: they mostly compile, and compile less like this; other collectors start threads."""


@lru_cache
def compiled(program: Path, classes: str) -> str:
    """Compile a program of one file with the class path `classes`, and return the folder with its classes."""
    folder = tempfile.mkdtemp(prefix=f"{program.stem}-")
    atexit.register(shutil.rmtree, folder)
    command = ["javac", f"-J{QUICK_JVM[0]}", "-cp", classes, "-d", folder, str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=LONG_WAIT_S)
    return folder
