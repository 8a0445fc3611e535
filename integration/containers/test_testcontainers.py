"""The Testcontainers libraries themselves start containers of the image, with the snippets of docs/containers.md.

Only the image's name is replaced: podman's is `localhost/pybroker`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testing.clients.testcontainers_runs import GO_MODULE, JAVA_ARTIFACT, PYTHON_PACKAGES
from testing.containers.docker_api import docker_api
from testing.containers.engine import Engine
from testing.places import CLIENT_PROGRAMS, ROOT
from testing.process.kafka_tools import java
from testing.process.maven import folder_of_jars
from testing.process.venvs import python_with

PAGE = (ROOT / "docs" / "containers.md").read_text()
TIMEOUT_S = 500
ADDRESS = re.compile(r"localhost:\d+")

Image = tuple[str, Mapping[str, str]]
"""The image's name, and the variables of the engine."""


def snippet(language: str) -> str:
    text = PAGE.partition("\n## Testcontainers\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[0]


@pytest.fixture(scope="module")
def ours(engine: Engine, image_name: str) -> Iterator[Image]:
    with docker_api(engine) as variables:
        yield (f"localhost/{image_name}" if engine.is_podman else image_name), variables


def output(command: list[str], ours: Image, folder: Path) -> str:
    environment = {**os.environ, **ours[1]}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def client(tmp_path: Path, address: str = "sys.argv[1]") -> str:
    """Return a line of Python that produces and consumes in another interpreter, which has a client."""
    program = [sys.executable, str(CLIENT_PROGRAMS / "container_client.py"), "records"]
    return f"import subprocess, sys; subprocess.run([*{program!r}, {address}, 'records'], check=True)"


def test_the_python_library_starts_a_broker(ours: Image, tmp_path: Path) -> None:
    python = python_with(*PYTHON_PACKAGES)
    program = tmp_path / "example.py"
    text = snippet("python").replace('"pybroker"', f'"{ours[0]}"')
    program.write_text(f"{text}    {client(tmp_path, 'kafka.get_bootstrap_server()')}\n")
    printed = output([str(python), "-W", "ignore", str(program)], ours, tmp_path)
    assert len(ADDRESS.findall(printed)) == 2


def test_the_python_library_starts_the_image_that_the_tests_of_pyspark_name(ours: Image, engine: Engine, tmp_path: Path) -> None:
    command = re.findall(r"^    docker tag (\S+) (\S+)$", PAGE, re.MULTILINE)[0]
    name = f"docker.io/{command[1]}"
    if engine.has_image(name):
        pytest.skip(f"{name} is there already")
    python = python_with(*PYTHON_PACKAGES)
    program = tmp_path / "example.py"
    program.write_text(
        f"from testcontainers.community.kafka import KafkaContainer\nkafka = KafkaContainer('{command[1]}')\nkafka.start()\n"
        f"{client(tmp_path, 'kafka.get_bootstrap_server()')}\nkafka.stop()\n"
    )
    engine.run("tag", ours[0], name)
    try:
        assert len(ADDRESS.findall(output([str(python), "-W", "ignore", str(program)], ours, tmp_path))) == 1
    finally:
        engine.run("untag" if engine.is_podman else "rmi", *([ours[0]] if engine.is_podman else []), name)


@pytest.mark.parametrize(
    ("container", "original"), [("KafkaContainer", "apache/kafka"), ("ConfluentKafkaContainer", "confluentinc/cp-kafka")]
)
def test_the_java_library_starts_a_broker(ours: Image, tmp_path: Path, container: str, original: str) -> None:
    text = snippet("java").replace('"pybroker"', f'"{ours[0]}"').replace("new KafkaContainer", f"new {container}")
    text = text.replace("apache/kafka", original)
    program = tmp_path / "Example.java"
    program.write_text(
        "import org.testcontainers.kafka.*;\nimport org.testcontainers.utility.DockerImageName;\n"
        f"public class Example {{ public static void main(String[] arguments) {{\n{text}System.exit(0); }} }}\n"
    )
    jars = folder_of_jars("testcontainers-java", JAVA_ARTIFACT)
    assert ADDRESS.search(output([java(), "-cp", f"{jars}/*", str(program)], ours, tmp_path))


def test_the_go_library_starts_a_broker(ours: Image, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("the Testcontainers module for Go needs go, which is not installed")
    module, version = GO_MODULE.split("@")
    core = module.removesuffix("/modules/kafka")
    (tmp_path / "go.mod").write_text(f"module example\ngo 1.24\nrequire {module} {version}\nrequire {core} {version}\n")
    text = snippet("go").replace('"pybroker"', f'"{ours[0]}"')
    (tmp_path / "main.go").write_text(
        f'package main\nimport (\n"context"\n"fmt"\n"{core}"\n"{module}"\n)\n'
        f"func main() {{\nctx := context.Background()\n{text}"
        "defer testcontainers.TerminateContainer(container)\nif err != nil { panic(err) }\n"
        "brokers, err := container.Brokers(ctx)\nfmt.Println(brokers, err)\n}\n"
    )
    printed = output(["env", "GOFLAGS=-mod=mod", go, "run", "."], ours, tmp_path)
    assert ADDRESS.search(printed)
    assert "<nil>" in printed
