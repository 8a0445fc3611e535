"""Artifacts from Maven Central, downloaded once: the oracles of tests that compare with Kafka itself.

PYBROKER_CACHE_DIR   where they are kept (default: `.cache/` in the repository)
PYBROKER_MAVEN_URL   the repository to download from (default: Maven Central)
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from testing.places import cache_dir
from testing.process.java import QUICK_JVM
from testing.waiting import until, within

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
DOWNLOAD_TIMEOUT_S = 90
MAVEN_TIMEOUT_S = 200
"""The limit of Maven's wait for its turn, and again of its work; both, with the download before them, fit into a test's limit."""


def jar(group: str, artifact: str, version: str) -> Path:
    """Return the jar of an artifact, from the cache or else downloaded.

    The first try is a plain download through the environment's proxies, the second is Maven, which knows the mirrors of its
    settings. Raises RuntimeError when neither gets the jar.
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
            within(DOWNLOAD_TIMEOUT_S, f"the download of {name}", _download, group, artifact, version, fresh)
        except OSError as error:
            _copy_with_maven(group, artifact, version, fresh, reason=error)
        if not zipfile.is_zipfile(fresh):
            raise RuntimeError(f"what was downloaded as {name} is not a jar")
        fresh.replace(target)  # whole or not at all, also when several tests download at once
    return target


def old_client_jars(version: str) -> list[Path]:
    """Return the jars of an old release of Kafka's Java client and of its dependencies. Raises RuntimeError as `jar` does."""
    return [
        jar("org.apache.kafka", "kafka-clients", version),
        jar("net.jpountz.lz4", "lz4", "1.3.0"),
        jar("org.xerial.snappy", "snappy-java", "1.1.10.5"),
        jar("org.slf4j", "slf4j-api", "1.7.36"),
        jar("org.slf4j", "slf4j-nop", "1.7.36"),
        jar("javax.xml.bind", "jaxb-api", "2.3.1"),  # for SCRAM; Java had it until 11
    ]


def folder_of_jars(name: str, *artifacts: tuple[str, str, str]) -> Path:
    """Return the folder `name` of the cache, with the jars of these artifacts and of all that they need at run time.

    Raises RuntimeError where Maven cannot get them; skips the test where there is no Maven.
    """
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in artifacts
    )

    def make(work: Path) -> Path | None:
        pom, jars = work / "pom.xml", work / "jars"
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>pybroker</groupId>'
            f"<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
            f"<dependencies>{dependencies}</dependencies></project>"
        )
        run_maven(
            *("--file", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
            folder=work,
            what=name,
        )
        return jars if any(jars.glob("*.jar")) else None

    return _made_once(name, make)


def streams_jars(release: str) -> str:
    """Return a class path of a release of Kafka Streams, which logs to stderr. Raises RuntimeError as `folder_of_jars` does."""
    binding = ("org.slf4j", "slf4j-simple", "1.7.36")
    return f"{folder_of_jars(f'kafka-streams-{release}', ('org.apache.kafka', 'kafka-streams', release), binding)}/*"


def unpacked(name: str, artifact: str) -> Path:
    """Return the folder `name` of the cache, with the content of a tar.gz of Maven, `group:artifact:version:tar.gz:classifier`.

    Raises RuntimeError where Maven cannot get it; skips the test where there is no Maven.
    """

    def make(work: Path) -> Path | None:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        run_maven(goal, f"-Dartifact={artifact}", f"-DoutputDirectory={work}", folder=work, what=artifact)
        fresh = work / "unpacked"
        for path in work.glob("*.tar.gz"):
            with tarfile.open(path) as archive:
                archive.extractall(fresh, filter="data")
        return fresh if fresh.exists() else None

    return _made_once(name, make)


def run_maven(*arguments: str, folder: Path, what: str) -> None:
    """Run Maven to get `what`. Raises RuntimeError where it cannot; skips the test where there is no Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"{what} is brought by Maven (mvn), which is not installed")
    run = _maven([maven, "--batch-mode", "--quiet", *arguments], folder)
    if run.returncode != 0:
        raise RuntimeError(f"Maven cannot get {what}: {run.stdout[-1000:]}{run.stderr[-1000:]}")


def _maven(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAVEN_OPTS": f"{' '.join(QUICK_JVM)} {os.environ.get('MAVEN_OPTS', '')}"}
    with _alone():
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, cwd=folder, check=False
        )


def _made_once(name: str, make: Callable[[Path], Path | None]) -> Path:
    """Return the folder `name` of the cache. If it is missing, `make` makes it elsewhere, and it appears whole or not at all."""
    folder = cache_dir() / name
    if folder.exists():
        return folder
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
        made = make(Path(work))
        if made is None:
            raise RuntimeError(f"Maven brought nothing for {name}")
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():  # another test was faster
                raise
    return folder


@contextmanager
def _alone() -> Iterator[None]:
    """Let only one Maven run at a time among all tests, because two of them damage each other's local repository."""
    with (cache_dir() / ".maven.lock").open("w") as lock:
        until(partial(_is_locked, lock.fileno()), "the end of another test's Maven", MAVEN_TIMEOUT_S, pause_s=0.1)
        yield


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _download(group: str, artifact: str, version: str, target: Path) -> None:
    base = os.environ.get("PYBROKER_MAVEN_URL", MAVEN_CENTRAL).rstrip("/")
    url = f"{base}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as response, target.open("wb") as file:
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
    run = _maven(command, target.parent)
    if not target.exists():
        raise RuntimeError(f"Maven cannot find {artifact} {version}: {run.stdout[-500:]}{run.stderr[-500:]}") from reason
