"""Downloads what the tests compare with, and makes what they share, before any test waits for it.

    python -m testing.process.bring

Each test also downloads what it needs. But a first run downloads some hundred megabytes, with one Maven at a time, and a test
that waits for its turn would reach its limit. A line names each part that cannot be downloaded. The test that needs the part
reports the reason: it is skipped where Java or Maven is missing, and fails otherwise. Without an archive of classes, the tests
with Kafka only take longer.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from testing.clients.testcontainers_runs import JAVA_ARTIFACT, PYTHON_PACKAGES
from testing.process import kafka_archive
from testing.process.go import built
from testing.process.kafka_archive import KAFKA_RELEASES
from testing.process.kafka_peer import classpath
from testing.process.maven import folder_of_jars, old_client_jars, streams_jars
from testing.process.venvs import OLD_PYTHON_CLIENTS, old_python_client, python_with

OLD_JAVA_CLIENTS = ("0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2")


def main() -> None:
    """Download the parts in turn, then make the archives side by side."""
    for name, bring in downloads().items():
        _try(name, bring)
    with ThreadPoolExecutor(max_workers=2) as pool:
        for name, make in archives().items():
            pool.submit(_try, name, make)


def downloads() -> dict[str, Callable[[], object]]:
    """Return what to download by its name, with what downloads it."""
    things: dict[str, Callable[[], object]] = {}
    if shutil.which("java") and shutil.which("mvn"):
        things |= {f"Apache Kafka {release}": partial(classpath, release) for release in KAFKA_RELEASES}
        things |= {f"Kafka Streams {release}": partial(streams_jars, release) for release in KAFKA_RELEASES}
        things["Testcontainers for Java"] = partial(folder_of_jars, "testcontainers-java", JAVA_ARTIFACT)
    if shutil.which("java"):
        things |= {f"the Java client {version}": partial(old_client_jars, version) for version in OLD_JAVA_CLIENTS}
    if shutil.which("go"):
        things["franz-go"] = partial(built, "transactions")
    things |= {f"kafka-python {release}": partial(old_python_client, release) for release in OLD_PYTHON_CLIENTS}
    things["Testcontainers for Python"] = partial(python_with, *PYTHON_PACKAGES)
    return things


def archives() -> dict[str, Callable[[], object]]:
    """Return the archives of classes by their names, with what makes them."""
    if not (shutil.which("javac") and shutil.which("mvn")):
        return {}
    return {f"the archive of Kafka {each}'s classes": partial(kafka_archive.make, each) for each in KAFKA_RELEASES}


def _try(name: str, bring: Callable[[], object]) -> None:
    try:
        bring()
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as error:
        print(f"{name} is not there: {str(error).strip().splitlines()[-1:]}")


if __name__ == "__main__":
    main()
