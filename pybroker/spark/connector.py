"""The jars of Spark's Kafka connector, from a given folder or downloaded once from Maven Central.

PYBROKER_SPARK_JARS   a folder with the jars, used as it is: nothing is downloaded
PYBROKER_MAVEN_URL    the repository to download from (default: Maven Central)
PYBROKER_CACHE_DIR    the folder that keeps the jars (default: pybroker in the user's cache folder)

This module names four files with their checksums instead of using a resolver. The connector's POM requires a release of one of
its parts that not every repository has (spark-token-provider-kafka, for Kerberos, above 4.0.0), and the result must be the same
on every machine.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pybroker.spark.cache import cache_dir
from pybroker.spark.errors import PipelineError

MAVEN_CENTRAL: Final = "https://repo1.maven.org/maven2"
SPARK_VERSION: Final = "4.2.0"
_SCALA: Final = "2.13"
_TIMEOUT_S: Final = 120
_ATTEMPTS: Final = 3
_MARKER: Final = "spark-sql-kafka-0-10_"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar of a Maven repository."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name of the jar."""
        return f"{self.name}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The path of the jar in every Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file_name}"


ARTIFACTS: Final = (
    Artifact(
        "org.apache.spark",
        f"spark-sql-kafka-0-10_{_SCALA}",
        SPARK_VERSION,
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Artifact(
        "org.apache.spark",
        f"spark-token-provider-kafka-0-10_{_SCALA}",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2", "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1", "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f"),
)


def connector_jars(folder: Path | None = None) -> list[Path]:
    """Return the jars of the given folder, or of PYBROKER_SPARK_JARS, or else of the cache, downloading what is missing there.

    Raises PipelineError when the folder does not hold the connector or a download fails.
    """
    named = os.environ.get("PYBROKER_SPARK_JARS")
    if folder is None and named:
        folder = Path(named)
    if folder is not None:
        return _jars_of(folder)
    target = cache_dir() / f"spark-{SPARK_VERSION}-jars"
    return [_cached(artifact, target) for artifact in ARTIFACTS]


def _jars_of(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise PipelineError(f"{folder}: no such directory; it should hold the jars of Spark's Kafka connector")
    jars = sorted(folder.resolve().glob("*.jar"))
    if not any(jar.name.startswith(_MARKER) for jar in jars):
        raise PipelineError(f"{folder}: no {_MARKER}*.jar in it; the jars of Spark's Kafka connector are missing")
    return jars


def _cached(artifact: Artifact, folder: Path) -> Path:
    target = folder / artifact.file_name
    if target.exists() and _sha256(target) == artifact.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    content = _download(artifact)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(content)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(target)  # the whole file or none, also when several jobs download at once
    return target


def _download(artifact: Artifact) -> bytes:
    base = os.environ.get("PYBROKER_MAVEN_URL", MAVEN_CENTRAL).rstrip("/")
    url = f"{base}/{artifact.path}"
    if not url.startswith(("https://", "http://", "file://")):
        raise PipelineError(f"PYBROKER_MAVEN_URL is {base!r}, which is not a URL")
    reason = ""
    for _ in range(_ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310 (checked above)
                content: bytes = response.read()
        except OSError as error:
            reason = str(error)
            continue
        if hashlib.sha256(content).hexdigest() == artifact.sha256:
            return content
        reason = "the downloaded file has another checksum"
    raise PipelineError(
        f"cannot download {artifact.file_name} from {base}: {reason}; "
        "set PYBROKER_MAVEN_URL to another repository, or --jars to a folder with the jars of Spark's Kafka connector"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
