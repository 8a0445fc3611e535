"""Virtual environments with old releases of a client, made once and kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from testing.places import cache_dir

TIMEOUT_S = 200
OLD_PYTHON_CLIENTS = ("1.4.7", "2.0.2")
_CODEC_PACKAGES = ("lz4==4.4.5", "python-snappy==0.7.3", "xxhash>=3.4", "crc32c>=2.7")


def python_with(*requirements: str) -> Path:
    """Return the interpreter of an environment with exactly these packages, from PyPI. Raises RuntimeError with pip's output."""
    key = hashlib.sha256(" ".join((sys.version, *requirements)).encode()).hexdigest()[:12]
    target = cache_dir() / f"venv-{key}"
    python = target / "bin" / "python"
    if python.exists():
        return python
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        fresh = Path(folder) / "venv"
        _run([sys.executable, "-m", "venv", "--without-pip", str(fresh)])  # a pip of its own takes longer than the packages
        _run([sys.executable, "-m", "pip", "--python", str(fresh), "install", "--quiet", "--no-compile", *requirements])
        if not target.exists():  # appears whole or not at all; the interpreter finds its packages wherever its folder is
            shutil.move(fresh, target)
    return python


def old_python_client(release: str) -> Path:
    """Return the interpreter of an environment with that release of kafka-python and all codecs. Raises RuntimeError."""
    return python_with(f"kafka-python=={release}", *_CODEC_PACKAGES)


def _run(command: list[str]) -> None:
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{run.stdout[-1000:]}{run.stderr[-2000:]}")
