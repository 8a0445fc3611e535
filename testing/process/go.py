"""Programs in Go, for clients that exist in Go only."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Final

from testing.places import GO_SOURCES, cache_dir

BUILD_S_MAX: Final = 500
"""The first build on a machine also compiles Go's own packages."""
QUICK_BUILD: Final = ("-ldflags=-w", "-gcflags=all=-N -l -dwarf=false")
"""Options that halve the compiler's work, of which the first build has much: the programs run for seconds."""


@functools.cache
def built(program: str) -> Path:
    """Build the program in the folder of this name, and return the executable. Go keeps what it has compiled before."""
    executable = cache_dir() / f"go-{program}"
    command = ["go", "build", *QUICK_BUILD, "-o", str(executable), "."]
    done = subprocess.run(command, cwd=GO_SOURCES / program, capture_output=True, text=True, timeout=BUILD_S_MAX, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program} cannot be built:\n{done.stderr}")
    return executable
