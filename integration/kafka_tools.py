"""Apache Kafka's own command line tools, run on files that we wrote. Their jars are downloaded once with Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from integration.maven import cache_dir

KAFKA_VERSION = "3.9.2"
TIMEOUT_S = 300

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pybroker</groupId>
  <artifactId>kafka-tools</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


@lru_cache
def java() -> str:
    """The java command; skips the test when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        pytest.skip("Apache Kafka's own tools need java, which is not installed")
    return found


@lru_cache
def tools_folder() -> Path:
    """The folder with Kafka's jars and all that they need; skips the test where Maven is missing. Raises RuntimeError."""
    folder = cache_dir() / f"kafka-tools-{KAFKA_VERSION}"
    if folder.exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Apache Kafka's own tools are brought by Maven (mvn), which is not installed")
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
        fresh = Path(work) / "jars"
        pom = Path(work) / "pom.xml"
        pom.write_text(_POM)
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
        run = subprocess.run(
            [*command, f"-DoutputDirectory={fresh}"], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=work, check=False
        )
        if run.returncode != 0 or not any(fresh.glob("kafka_2.13-*.jar")):
            raise RuntimeError(f"Maven cannot get Kafka {KAFKA_VERSION}: {run.stdout[-1000:]}{run.stderr[-1000:]}")
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.exists():  # another test was faster
                raise
    return folder


def run_tool(class_name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a class of Kafka's jars to its end and return its exit code and what it printed."""
    command = [java(), "-Xmx512m", "-cp", f"{tools_folder()}/*", class_name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
