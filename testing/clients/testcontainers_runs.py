"""The calls of the Testcontainers libraries to a container, taken from the libraries themselves."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testing.places import CLIENT_PROGRAMS, JAVA_SOURCES
from testing.process.kafka_tools import java
from testing.process.maven import folder_of_jars
from testing.process.venvs import python_with

PYTHON_PACKAGES = ("testcontainers==4.15.0", "packaging")
JAVA_ARTIFACT = ("org.testcontainers", "testcontainers-kafka", "2.0.3")
GO_MODULE = "github.com/testcontainers/testcontainers-go/modules/kafka@v0.40.0"
IMAGE = "pybroker:7.6.0"
"""A tag such as confluentinc uses; without it, the libraries' `with_kraft` refuses the image."""
TIMEOUT_S = 300


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run of a container by a library: its command and variables, the script that is copied to `path`, the pattern of the
    line that is waited for, and the container's port that is published.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    script: str
    path: str
    pattern: str
    port: int


def python_run(mode: str, host: str, port: int) -> Run:
    """Return the run of Python's KafkaContainer. Raises RuntimeError where PyPI does not have it."""
    python = python_with(*PYTHON_PACKAGES)
    command = [str(python), "-W", "ignore", str(CLIENT_PROGRAMS / "testcontainers_python.py"), IMAGE, mode, host, str(port)]
    asked = json.loads(_output(command))
    return Run(**{**asked, "command": tuple(shlex.split(asked["command"]))})


def java_run(container: str, host: str, port: int) -> Run:
    """Return the run of a container class of Java; skip the test where there is no Java or no Maven."""
    classpath = f"{folder_of_jars('testcontainers-java', JAVA_ARTIFACT)}/*"
    output = _output([java(), "-cp", classpath, str(JAVA_SOURCES / "TestcontainersJava.java"), container, host, str(port)])
    facts: dict[str, list[str]] = {}
    for line in output.splitlines():
        name, _, text = line.partition("\t")
        facts.setdefault(name, []).append(text.replace("\\n", "\n"))
    return Run(
        command=tuple(facts["command"]),
        environment=dict(variable.split("=", 1) for variable in facts["environment"]),
        script=facts["script"][0],
        path=facts["path"][0],
        pattern=facts["pattern"][0],
        port=int(facts["port"][0]),
    )


def go_run(host: str, port: int, host_name: str) -> Run:
    """Return the run of Go's module; skip the test where there is no Go.

    It is read from the source, because the module needs an engine.
    """
    go = shutil.which("go")
    if go is None:
        pytest.skip("the Testcontainers module for Go is brought by go, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        module = json.loads(_output([go, "mod", "download", "-json", GO_MODULE], folder))
    source = (Path(module["Dir"]) / "kafka.go").read_text()
    script = re.findall(r"starterScriptContent = `(.*?)`", source, re.DOTALL)[0]
    environment = dict(re.findall(r'"(KAFKA_\w+)":\s*"([^"]*)"', source))
    assert "strconv.Itoa(math.MaxInt)" in source
    path = re.findall(r'starterScript\s*=\s*"([^"]+)"', source)[0]
    waiting = re.findall(r'WithCmd\("-c", "([^"]*)"\s*\+\s*starterScript\s*\+\s*"([^"]*)"\s*\+\s*starterScript', source)[0]
    return Run(
        command=("sh", "-c", path.join([*waiting, ""])),
        environment={
            **environment,
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        },
        script=script % (f"PLAINTEXT://{host}:{port}", host_name),
        path=path,
        pattern=re.findall(r'wait\.ForLog\("([^"]+)"\)\.AsRegexp', source)[0],
        port=int(re.findall(r'publicPort\s*=[^"]*"(\d+)/tcp"', source)[0]),
    )


def _output(command: list[str], folder: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout
