"""Apache Kafka's own command line tools, run on files that we wrote. Their jars are downloaded once with Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from testing.process.java import QUICK_JVM
from testing.process.maven import folder_of_jars

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


@lru_cache
def tools_folder() -> Path:
    """Return the folder with Kafka's jars and their dependencies; skip the test where Maven is missing. Raises RuntimeError."""
    return folder_of_jars(f"kafka-tools-{KAFKA_VERSION}", ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION))


def run_tool(class_name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's jars to its end and return its exit code and what it printed."""
    command = [java(), "-Xmx512m", *QUICK_JVM, "-cp", f"{tools_folder()}/*", class_name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
