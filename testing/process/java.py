"""Java in short runs: the options that make them cheap, archives of classes, and programs that are compiled once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from testing.places import cache_dir
from testing.waiting import LONG_WAIT_S

QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for JVMs that run for seconds: they mostly compile, and compile less like this; other collectors start threads."""


def quick_java(classes: str, program: Path | None = None, *, java: str = "java", has_archive: bool = True) -> list[str]:
    """Return how the command of a short run begins: the JVM with the class path `classes`. A class or more options follow.

    `program` is a program of one file. The class path ends with its classes, because an archive serves the class paths that begin
    with its own. Classes of an archive have their methods in another order, in which some tools write the fields of an object.
    """
    path = f"{classes}:{compiled(program, classes)}" if program else classes
    archive = archive_of(classes)
    return [java, *QUICK_JVM, *(archive_options(archive) if has_archive and archive.exists() else ()), "-cp", path]


def archive_of(classes: str) -> Path:
    """Return where the archive of the classes of a class path is kept, which `kafka_archive` makes."""
    return cache_dir() / f"java-classes-{_key(classes)}.jsa"


def archive_options(archive: Path) -> tuple[str, ...]:
    """Return options for a JVM, which starts without the archive, and silently, if that is of another JVM or of other jars."""
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off")


@lru_cache
def compiled(program: Path, classes: str) -> Path:
    """Compile a program of one file with the class path `classes`, and return the folder with its classes, which is kept."""
    folder = cache_dir() / f"{program.stem}-{_key(classes, program.read_text())}"
    if not folder.exists():
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
            fresh = Path(work) / "classes"
            command = ["javac", f"-J{QUICK_JVM[0]}", "-cp", classes, "-d", str(fresh), str(program)]
            subprocess.run(command, check=True, capture_output=True, timeout=LONG_WAIT_S)
            try:
                fresh.rename(folder)  # whole or not at all
            except OSError:
                if not folder.exists():  # another process was faster
                    raise
    return folder


@lru_cache
def _key(classes: str, *more: str) -> str:
    """Return what names the things that are made with this machine's Java and these jars."""
    java = Path(shutil.which("java") or "java").resolve()
    files = [java]
    for part in classes.split(":"):
        files += sorted(Path(part[:-1]).glob("*.jar")) if part.endswith("/*") else [Path(part)]
    parts = [f"{path} {path.stat().st_mtime_ns}" for path in files]
    return hashlib.sha256(repr([*parts, *more]).encode()).hexdigest()[:12]
