"""The commands and files of docs/containers.md about the image, keeping data, health and compose do what the page describes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testing.containers import compose
from testing.containers import image as images
from testing.containers.compose import Project
from testing.containers.containers import running, unique
from testing.containers.engine import BUILD_TIMEOUT_S, Engine, EngineError
from testing.places import ROOT
from testing.process.kafka_peer import free_port

SECTIONS = ("The first broker", "Keeping data", "When it is ready", "Compose")
TIMEOUT_S = 60
DOCUMENTED_PORT = 9093
PAUSE_S = 0.2


def commands(section: str) -> list[list[str]]:
    """Return the lines of a section that are commands, as words, with the variables before them."""
    return [
        shlex.split(line)
        for line in re.findall(r"^    ((?:KAFKA_PORT=|docker |make |pybroker ).*)$", text(section), re.MULTILINE)
    ]


def text(section: str) -> str:
    page = (ROOT / "docs/containers.md").read_text()
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return found[1]


class Reader:
    """A reader that does what the page describes, with its own names and port, and repeats a health check until it succeeds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._name, self._volume, self._port = unique("docs"), unique("docs-data"), free_port()
        self._project = Project(engine, unique("docs-compose"), environment={"KAFKA_PORT": str(self._port)})

    def do(self, words: list[str]) -> str:
        if words[0] == "make":
            return self._make(words[1])
        if words[0] == "pybroker":
            return self._pybroker([word.replace(f":{DOCUMENTED_PORT}", f":{self._port}") for word in words[1:]])
        if words[0].startswith("KAFKA_PORT="):
            assert words[0] == f"KAFKA_PORT={DOCUMENTED_PORT}"  # the project gets the variable from us, with a port of its own
            del words[0]
        words = [self._own(word) for word in words[1:]]
        if words[0] == "build":
            return images.build(self._engine)
        if words[0] == "compose":
            return self._project.run(*words[1:])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self._engine.run(*words)
            except EngineError:
                if words[0] != "exec" or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_S)

    def _make(self, target: str) -> str:
        """Run make with the engine and the Python of the tests."""
        made = ["make", "--silent", target, f"PYTHON={sys.executable}"]
        environment = {**self._engine.full_environment, "ENGINE": self._engine.name}
        done = subprocess.run(
            made, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"^pybroker: [0-9.]+ MB to pull \(gzip\), [0-9.]+ MB unpacked$", done.stdout, re.MULTILINE), done.stdout
        return done.stdout

    def _pybroker(self, words: list[str]) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            done = subprocess.run(
                [sys.executable, "-m", "pybroker", *words],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(PAUSE_S)

    def clean_up(self) -> None:
        self._engine.call("rm", "--force", "--volumes", self._name)
        self._engine.call("volume", "rm", "--force", self._volume)

    def _own(self, word: str) -> str:
        if word == "kafka":
            return self._name
        return word.replace("kafka-data", self._volume).replace(":9092:", f":{self._port}:")


@pytest.fixture
def reader(engine: Engine, image: str, clients_image: str) -> Iterator[Reader]:
    if compose.command(engine) is None:
        pytest.skip("no `docker compose` or podman-compose (pip install --group containers)")
    one = Reader(engine)
    try:
        yield one
    finally:
        one.clean_up()


@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_the_page_work(section: str, reader: Reader) -> None:
    lines = commands(section)
    assert len(lines) >= 3
    for words in lines:
        reader.do(words)


def test_a_service_that_depends_on_the_broker_starts_when_it_is_healthy(engine: Engine, image_name: str, tmp_path: Path) -> None:
    if compose.command(engine) is None:
        pytest.skip("no `docker compose` or podman-compose (pip install --group containers)")
    fragment = re.search(r"^```yaml\n(depends_on:\n.*?)^```$", text("When it is ready"), re.MULTILINE | re.DOTALL)
    assert fragment is not None
    lists_topics = ["kafka-topics", "--bootstrap-server", "kafka:9092", "--list"]
    services = {
        "kafka": {"image": image_name, "environment": {"PYBROKER_TOPICS": "wanted"}},
        "service": {"image": image_name, "command": lists_topics, **yaml.safe_load(fragment[1])},
    }
    file = tmp_path / "compose.yml"
    file.write_text(yaml.safe_dump({"services": services}))
    project = Project(engine, unique("docs-depends"), file=file)
    try:
        assert "wanted" in project.run("run", "--rm", "service").splitlines()
    finally:
        project.down()


def test_the_size_that_the_page_states_is_that_of_the_image(engine: Engine, image: str) -> None:
    stated = re.search(r"([0-9.]+) MB to pull, ([0-9.]+) MB unpacked", text("The first broker"))
    assert stated is not None
    for megabytes, size in zip(stated.groups(), images.sizes(engine, image), strict=True):
        assert abs(float(megabytes) - size / images.MB) < 0.1 * float(megabytes)


def test_a_broker_that_pybroker_start_starts_gets_healthy(engine: Engine, image: str) -> None:
    command = ["pybroker", "start", "--data-dir", "/var/lib/kafka/data"]
    with running(engine, image, command=command) as broker:
        broker.wait_healthy()
        broker.stop()
        assert broker.exit_code == 0
