"""Check that everything that the images install is published as a binary for another kind of processor.

python -m testing.containers.wheels [--machine aarch64]

It downloads each locked requirement with its hash, for the image's Python and for every glibc up to that of the base. PySpark is
left out: it is published as source and has nothing to compile.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from testing.containers.image import base_name
from testing.places import ROOT

SOURCE_ONLY: Final = frozenset({"pyspark"})
GLIBC_MINORS: Final = range(17, 42)
"""manylinux_2_17 is the oldest that packages are built for; Debian 13 has 2.41."""

TIMEOUT_S: Final = 900


def lock_files() -> list[Path]:
    return sorted((ROOT / "container").glob("requirements*.txt"))


def requirements(lock: Path) -> dict[str, str]:
    """Return the requirements of a lock file by name, each with its version and hashes as written there."""
    blocks = re.findall(r"^\S.*(?:\n[ \t]+.*)*", lock.read_text(), re.MULTILINE)
    return {re.split(r"[=<>\[ ]", block, maxsplit=1)[0]: block for block in blocks if not block.startswith("#")}


def missing(lock: Path, machine: str) -> str:
    """Return pip's message when a requirement has no wheel for this machine; empty when all have one."""
    wanted = [block for name, block in requirements(lock).items() if name not in SOURCE_ONLY]
    python = re.search(r":(\d+)\.(\d+)-", base_name())
    assert python is not None
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    target = [f"--python-version={python[1]}{python[2]}", "--implementation=cp", "--only-binary=:all:", *platforms]
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder) / "requirements.txt"
        chosen.write_text("\n".join(wanted) + "\n")
        options = ["--quiet", "--no-deps", "--require-hashes", f"--dest={folder}", f"--requirement={chosen}", *target]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="aarch64")
    options = parser.parse_args()
    for lock in lock_files():
        trouble = missing(lock, options.machine)
        if trouble:
            sys.exit(f"{lock.name}: {trouble}")
        print(f"{lock.name}: {len(requirements(lock))} requirements, all there for {options.machine}", flush=True)


if __name__ == "__main__":
    main()
