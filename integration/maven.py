"""Artifacts from Maven Central, downloaded once: oracles for the tests that compare with Kafka itself.

PYBROKER_CACHE_DIR   where they are kept (default: `.cache/` in the repository)
PYBROKER_MAVEN_URL   the repository to download from (default: Maven Central)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
TIMEOUT_S = 120


def jar(group: str, artifact: str, version: str) -> Path:
    """The jar of an artifact, from the cache or else downloaded.

    First a plain download through the proxies of the environment, then Maven, which knows the mirrors of its settings.
    Raises RuntimeError when neither has it.
    """
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    name = f"{artifact}-{version}.jar"
    target = cache / name
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        fresh = Path(folder) / name
        try:
            _download(group, artifact, version, fresh)
        except OSError as error:
            _copy_with_maven(group, artifact, version, fresh, reason=error)
        if not zipfile.is_zipfile(fresh):
            raise RuntimeError(f"what was downloaded as {name} is not a jar")
        fresh.replace(target)  # whole or not at all, also when several tests download at once
    return target


def cache_dir() -> Path:
    """The folder for everything that tests download."""
    chosen = os.environ.get("PYBROKER_CACHE_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parent.parent / ".cache"


def _download(group: str, artifact: str, version: str, target: Path) -> None:
    base = os.environ.get("PYBROKER_MAVEN_URL", MAVEN_CENTRAL).rstrip("/")
    url = f"{base}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, target.open("wb") as file:
        shutil.copyfileobj(response, file)


def _copy_with_maven(group: str, artifact: str, version: str, target: Path, *, reason: OSError) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError(f"cannot download {artifact} {version}, and there is no Maven to ask") from reason
    target.unlink(missing_ok=True)
    command = [
        maven,
        "--batch-mode",
        "--quiet",
        "dependency:copy",
        f"-Dartifact={group}:{artifact}:{version}",
        f"-DoutputDirectory={target.parent}",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S * 2, cwd=target.parent, check=False)
    if not target.exists():
        raise RuntimeError(f"Maven cannot find {artifact} {version}: {run.stdout[-500:]}{run.stderr[-500:]}") from reason
