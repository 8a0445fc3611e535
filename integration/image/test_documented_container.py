"""A container of namespaces does what docs/containers.md has about variables, topics and refusals."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.hosts.toy_container import Container, toy_container
from testing.places import ROOT

PAGE = (ROOT / "docs" / "containers.md").read_text()


def section(heading: str) -> str:
    text = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert text, heading
    return text


REFUSALS = re.findall(r"^    (docker run .*)\n    (Error: .*)$", section("What is refused"), re.MULTILINE)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with toy_container(tmp_path) as made:
        made.hosts({"kafka": "127.0.0.2"})
        yield made


def test_the_compose_file_of_the_page_works(container: Container) -> None:
    environment = dict(re.findall(r"^      ([A-Z_]+): (.+)$", section("Variables and files of other images"), re.MULTILINE))
    assert len(environment) == 6
    broker = container.broker(environment)
    broker.wait_for("READY .*")
    client = ("-m", "testing.clients.container_client")
    for bootstrap in ("kafka:9092", "localhost:29092"):
        code, output, error = container.python(*client, "records", bootstrap, "new")
        assert (code, output) == (0, f"broker 1 at {bootstrap}\n"), error
    _, output, _ = container.python(*client, "topics", "kafka:9092")
    assert output.split() == ["customers=1", "new=3", "orders=6"]


def test_the_topics_of_the_page_exist_after_the_start(container: Container) -> None:
    variable = re.findall(r"^    PYBROKER_TOPICS=(.*)$", section("Topics at start"), re.MULTILINE)[0]
    container.broker({"PYBROKER_TOPICS": variable}).wait_for("READY .*")
    _, output, _ = container.python("-m", "testing.clients.container_client", "topics", "127.0.0.1:9092")
    assert output.split() == ["customers=1", "events=3", "orders=6"]


def test_go_gets_an_image_with_a_tag() -> None:
    """Give the image a tag, because the library for Go panics at a name without one."""
    (image,) = re.findall(r'kafka\.Run\(ctx, "(.+)"\)', section("Testcontainers"))
    assert re.fullmatch(r"pybroker:\w+", image)


def test_the_page_has_refusals() -> None:
    assert len(REFUSALS) == 3


@pytest.mark.parametrize(("command", "line"), REFUSALS)
def test_the_container_refuses_what_the_page_lists(container: Container, command: str, line: str) -> None:
    words = shlex.split(command)
    environment = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "-e")
    broker = container.broker(environment)
    assert broker.ended() == 1
    assert broker.errors.splitlines()[-1] == line
