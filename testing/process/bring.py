"""Downloads what the tests compare with, and makes what they share, before any test waits for it.

    python -m testing.process.bring

Each test also downloads what it needs. But a first run downloads some hundred megabytes, with one Maven at a time, and a test
that waits for its turn would reach its limit. A line names each part that cannot be downloaded. The test that needs the part
reports the reason: it is skipped where Java or Maven is missing, and fails otherwise. Without the archive of classes, the tests
with Spark only take longer.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable

from pybroker.pipeline.errors import PipelineError
from testing.clients.testcontainers_runs import JAVA_ARTIFACT, PYTHON_PACKAGES
from testing.process import class_archive
from testing.process.go import built
from testing.process.kafka_peer import classpath
from testing.process.kafka_tools import tools_folder
from testing.process.maven import folder_of_jars, old_client_jars, streams_jars
from testing.process.venvs import OLD_PYTHON_CLIENTS, old_python_client, python_with

KAFKA_RELEASES = ("3.9.2", "4.3.1")
OLD_JAVA_CLIENTS = ("0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2")


def main() -> None:
    """Download the parts in turn."""
    things: dict[str, Callable[[], object]] = {}
    if shutil.which("java") and shutil.which("mvn"):
        things |= {f"Apache Kafka {release}": lambda release=release: classpath(release) for release in KAFKA_RELEASES}  # type: ignore[misc]
        things |= {f"Kafka Streams {release}": lambda release=release: streams_jars(release) for release in KAFKA_RELEASES}  # type: ignore[misc]
        things["Apache Kafka's tools"] = tools_folder
        things["Testcontainers for Java"] = lambda: folder_of_jars("testcontainers-java", JAVA_ARTIFACT)
    if shutil.which("java"):
        for version in OLD_JAVA_CLIENTS:
            things[f"the Java client {version}"] = lambda version=version: old_client_jars(version)  # type: ignore[misc]
    if shutil.which("go"):
        things["franz-go"] = lambda: built("transactions")
    for release in OLD_PYTHON_CLIENTS:
        things[f"kafka-python {release}"] = lambda release=release: old_python_client(release)  # type: ignore[misc]
    things["Testcontainers for Python"] = lambda: python_with(*PYTHON_PACKAGES)
    if importlib.util.find_spec("pyspark"):
        things["the archive of Spark's classes"] = class_archive.make
    for name, bring in things.items():
        try:
            bring()
        except (RuntimeError, OSError, PipelineError, AssertionError, subprocess.SubprocessError) as error:
            print(f"{name} is not there: {str(error).strip().splitlines()[-1:]}")


if __name__ == "__main__":
    main()
