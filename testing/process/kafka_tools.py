"""Apache Kafka's own command line tools, run on files that we wrote. Their jars are downloaded once with Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache

import pytest

from testing.process.java import quick_java
from testing.process.kafka_peer import classpath

KAFKA_VERSION = "3.9.2"
TIMEOUT_S = 300


@lru_cache
def java() -> str:
    """Return the java command; skip the test when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        pytest.skip("Apache Kafka's own tools need java, which is not installed")
    return found


def run_tool(class_name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's jars to its end. Return its exit code and what it printed. Skip the test without Java or mvn."""
    virtual_machine = java()
    if shutil.which("mvn") is None:
        pytest.skip("Apache Kafka's own tools are brought by Maven (mvn), which is not installed")
    command = [*quick_java(classpath(KAFKA_VERSION), java=virtual_machine), "-Xmx512m", class_name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
