"""The examples in other languages pass: each starts a process, sets a fault, moves the time, and resets."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testing.places import ROOT
from testing.process.go import QUICK_BUILD
from testing.process.java import QUICK_JVM
from testing.process.maven import folder_of_jars

EXAMPLES = ROOT / "examples"
JUNIT = ("org.junit.platform", "junit-platform-console-standalone", "1.11.4")
CLIENT = ("org.apache.kafka", "kafka-clients", "3.9.2")
LOGS = ("org.slf4j", "slf4j-nop", "1.7.36")
KAFKAJS = "kafkajs@2.2.4"
TIMEOUT_S = 500
"""The first build on a machine also compiles Go's own packages."""


def run(command: list[str], folder: Path) -> str:
    """Run a command that finds this environment's pybroker, and return what it prints."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the examples in a language."""
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / "example"))


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a Java compiler")
@pytest.mark.parametrize("folder", ["java"], indirect=True)
def test_the_example_in_java_passes(folder: Path) -> None:
    jars = f"{folder_of_jars('junit-and-clients', JUNIT, CLIENT, LOGS)}/*"
    run(["javac", *(f"-J{option}" for option in QUICK_JVM), "-cp", jars, "OrdersTest.java"], folder)
    launcher = "org.junit.platform.console.ConsoleLauncher"
    printed = run(["java", *QUICK_JVM, "-cp", f"{jars}:.", launcher, "execute", "--select-class", "OrdersTest"], folder)
    assert "2 tests successful" in printed


def test_maven_gets_what_the_example_in_java_is_tested_with() -> None:
    pom = (EXAMPLES / "java" / "pom.xml").read_text()
    found = set(re.findall(r"<groupId>(.+)</groupId>\s+<artifactId>(.+)</artifactId>\s+<version>(.+)</version>\s+<", pom))
    jupiter = ("org.junit.jupiter", "junit-jupiter", JUNIT[2].replace("1.", "5.", 1))  # of the same release as the launcher
    assert {CLIENT, LOGS, jupiter} <= found


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js")
@pytest.mark.parametrize("folder", ["node"], indirect=True)
def test_the_example_in_javascript_passes(folder: Path) -> None:
    run(["npm", "install", "--no-audit", "--no-fund", "--silent", KAFKAJS], folder)
    assert "# pass 2" in run(["npm", "test"], folder)


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
@pytest.mark.parametrize("folder", ["go"], indirect=True)
def test_the_example_in_go_passes(folder: Path) -> None:
    assert "PASS: TestOrders" in run(["go", "test", "-v", *QUICK_BUILD, "."], folder)
