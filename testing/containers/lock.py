"""Pin what the images install: the newest versions that pyproject.toml allows, with the hashes of all their files.

    python -m testing.containers.lock

It writes container/requirements*.txt for the Python of the image's base and for every kind of processor. The versions in the
broker's image also hold for Spark's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from testing.containers.image import base_name
from testing.places import ROOT
from testing.waiting import LONG_WAIT_S

FOLDER: Final = ROOT / "container"
BROKER: Final = "requirements.txt"
LOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    BROKER: ("pyproject.toml", "--extra=console", "--extra=security"),
    "requirements-build.txt": ("container/requirements-build.in",),
    "requirements-clients.txt": ("container/requirements-clients.in",),
    "requirements-spark.txt": ("pyproject.toml", "--extra=spark", f"--constraint=container/{BROKER}"),
}
"""Each lock file and its sources, in the order in which they are made."""


def main() -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        sys.exit("Error: uv is not installed: pip install --group containers")
    python = re.search(r":(\d+\.\d+)-", base_name())
    assert python is not None
    options = ["--universal", f"--python-version={python[1]}", "--generate-hashes", "--no-annotate", "--upgrade", "--quiet"]
    environment = {**os.environ, "UV_CUSTOM_COMPILE_COMMAND": "make container-lock"}
    for name, sources in LOCKS.items():
        command = [uv, "pip", "compile", *options, *sources, f"--output-file={FOLDER / name}"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=LONG_WAIT_S, stdout=subprocess.DEVNULL)
        pinned = len(re.findall(r"^[^\s#]\S*==", (FOLDER / name).read_text(), re.MULTILINE))
        print(f"container/{name}: {pinned} requirements", flush=True)


if __name__ == "__main__":
    main()
