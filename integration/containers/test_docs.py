"""The commands of docs/containers.md about the image, keeping data, health and compose do what the page says."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator

import pytest

from testing.containers import compose
from testing.containers import image as images
from testing.containers.compose import Project
from testing.containers.containers import unique
from testing.containers.engine import Engine, EngineError
from testing.places import ROOT
from testing.process.kafka_peer import free_port

SECTIONS = ("The first broker", "Keeping data", "When it is ready", "Compose")
TIMEOUT_S = 60
PAUSE_S = 0.2


def commands(section: str) -> list[list[str]]:
    """The lines of a section that call docker, as words."""
    page = (ROOT / "docs/containers.md").read_text()
    found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, section
    return [shlex.split(line) for line in re.findall(r"^    (docker .*)$", found[1], re.MULTILINE)]


class Reader:
    """Does what the page says, with names and a port of its own, and tries a health check until it succeeds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._name, self._volume, self._port = unique("docs"), unique("docs-data"), free_port()
        self._project = Project(engine, unique("docs-compose"), environment={"KAFKA_PORT": str(self._port)})

    def do(self, words: list[str]) -> str:
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
        pytest.skip("no `docker compose` or podman-compose (pip install '.[container-test]')")
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
