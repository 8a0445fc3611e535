"""The files and commands of docs/ci.md: they can be parsed, their names are ours, and what runs without an engine is run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from integration.testing_kit.test_docs import PLUGINS, TIMEOUT_S, blocks, example_of_the_readme
from pybroker.testing import Broker
from testing.places import ROOT

PAGE = ROOT / "docs" / "ci.md"
IMAGE = "registry.example.com/pybroker:latest"
OUR_VARIABLE = re.compile(r"\b(?:KAFKA|PYBROKER)_[A-Z_]+\b")
OF_THE_TESTS = {"KAFKA_BOOTSTRAP"}
"""A variable that the tests of the reader have, not the broker."""

ADMIN = "http://localhost:8080"
TEST_OF_A_SERVICE = """
import os
from kafka import KafkaProducer

def test_a_service():
    KafkaProducer(bootstrap_servers=os.environ["KAFKA_BOOTSTRAP"]).send("orders", b"1").get(timeout=30)
"""


def documents() -> list[dict[Any, Any]]:
    return [yaml.safe_load(block) for block in blocks("yaml", PAGE)]


def steps() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the commands of the jobs on the page, with the variables of their jobs."""
    for document in documents():
        for job in document.get("jobs", {}).values():
            yield from ((step["run"], job.get("env", {})) for step in job["steps"] if "run" in step)
        if "script" in (job := document.get("tests", {})):
            yield from ((line, job.get("variables", {})) for line in job["script"])


def services() -> list[dict[str, Any]]:
    """Return the services of the page that are brokers, whatever the file is for."""
    found = []
    for document in documents():
        found += [job["services"]["kafka"] for job in document.get("jobs", {}).values() if "services" in job]
        found += document.get("tests", {}).get("services", [])
        found += [service for name, service in document.get("services", {}).items() if name == "kafka"]
    return found


def test_every_file_of_the_page_is_one_of_its_kind() -> None:
    workflows = [document for document in documents() if "jobs" in document]
    assert len(workflows) == 2
    for workflow in workflows:
        assert {"name", True, "jobs"} == workflow.keys(), "YAML takes `on` for True, and GitHub knows that"
        for job in workflow["jobs"].values():
            assert job["runs-on"] == "ubuntu-latest"
            assert all(step.keys() & {"uses", "run"} for step in job["steps"])
    assert [document["tests"]["image"] for document in documents() if "tests" in document] == ["python:3.13"] * 2
    containers = [json.loads(block) for block in blocks("json", PAGE)]
    assert [one["name"] for one in containers] == ["orders"] * 2
    compose = next(document for document in documents() if "tests" in document.get("services", {}))
    assert containers[0]["service"] in compose["services"]
    assert containers[0]["workspaceFolder"] == compose["services"]["tests"]["working_dir"]
    assert compose["services"]["tests"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_the_services_are_the_image() -> None:
    assert [service.get("image", service.get("name")) for service in services()] == [IMAGE] * 4
    (check,) = [service["healthcheck"] for service in services() if "healthcheck" in service]
    assert check == yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]["healthcheck"]


def test_every_variable_sets_something() -> None:
    names = {*OUR_VARIABLE.findall(PAGE.read_text())} - OF_THE_TESTS
    assert len(names) >= 7
    properties = {name.removeprefix("KAFKA_").lower().replace("_", ".") for name in names if name.startswith("KAFKA_")}
    listed = subprocess.run(
        [sys.executable, "-m", "pybroker", "config", "list"], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout
    assert not [name for name in properties if not re.search(rf"^{re.escape(name)}\b", listed, re.MULTILINE)]
    for name in names - {f"KAFKA_{name.replace('.', '_').upper()}" for name in properties}:
        assert f"`{name}`" in (ROOT / "docs" / "containers.md").read_text(), name


def test_the_requirements_are_some_and_name_a_commit() -> None:
    (text,) = blocks("text", PAGE)
    requirements = {one.name: one for one in map(Requirement, text.split("\n")[:-1])}
    assert {"pybroker", "pytest", "pytest-xdist"} <= requirements.keys()
    assert re.search(r"\.git@[0-9a-f]{40}$", str(requirements["pybroker"].url))


def test_the_commands_of_the_jobs_run(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(example_of_the_readme())
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "test_it.py").write_text(TEST_OF_A_SERVICE)
    base = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    options = [part for plugin in (*PLUGINS, "xdist.plugin") for part in ("-p", plugin)]
    ran = 0
    with Broker.subprocess() as broker:
        for command, variables in steps():
            if not command.startswith("pytest"):
                assert command.startswith(("pip install ", "./gradlew ")), command
                continue
            folder = tmp_path / "services" if "KAFKA_BOOTSTRAP" in variables else tmp_path
            words = [sys.executable, "-m", *command.split(), "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *options]
            words += [] if "KAFKA_BOOTSTRAP" in variables else ["--ignore", "services"]
            environment = {**base, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "KAFKA_BOOTSTRAP": broker.bootstrap}
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "1 passed" in done.stdout
            ran += 1
    assert ran == 3


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_reset_of_a_service_is_taken() -> None:
    (command,) = blocks("bash", PAGE)
    (variables,) = [service["env"] for service in services() if "env" in service]
    settings = {
        "pybroker.admin.listener": variables["KAFKA_PYBROKER_ADMIN_LISTENER"].replace("8080", "0"),
        "pybroker.admin.token": variables["KAFKA_PYBROKER_ADMIN_TOKEN"],
    }
    with Broker.in_thread(settings, virtual_time=variables["KAFKA_PYBROKER_VIRTUAL_TIME"] == "true") as broker:
        broker.create_topic("orders")
        assert command.count(ADMIN) == 1
        address = f"http://localhost:{str(broker.admin_url).rpartition(':')[2]}"
        done = subprocess.run(
            ["bash", "-euc", command.replace(ADMIN, address)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert broker.topics() == {}


class ProcessForContainer:
    """Stands in for the class of Testcontainers: a broker at the bound port, which advertises what the container would."""

    made: list[ProcessForContainer] = []  # noqa: RUF012

    def __init__(self, image: str) -> None:
        self.image, self.environment = image, dict[str, str]()
        self.made.append(self)

    def with_bind_ports(self, container: int, host: int) -> ProcessForContainer:
        assert container == 9092
        self.port = host
        return self

    def with_env(self, name: str, text: str) -> ProcessForContainer:
        self.environment[name] = text
        return self

    def waiting_for(self, text: str) -> ProcessForContainer:
        self.waited_for = text
        return self

    def __enter__(self) -> ProcessForContainer:
        self.folder = Path(os.environ["DATA_OF_THE_TEST"])
        command = [sys.executable, "-m", "pybroker", "start", "--env", "--port", str(self.port), "--data-dir", str(self.folder)]
        environment = {**os.environ, "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.environment['PYBROKER_ADVERTISED']}"}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        assert next((line for line in self.process.stdout if line.startswith(self.waited_for)), None) is not None
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT_S)


def test_a_container_of_no_class_for_kafka_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, attributes in (
        ("testcontainers", {}),
        ("testcontainers.core", {}),
        ("testcontainers.core.container", {"DockerContainer": ProcessForContainer}),
        ("testcontainers.core.wait_strategies", {"LogMessageWaitStrategy": str}),
    ):
        module = types.ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("DATA_OF_THE_TEST", str(tmp_path))
    (program,) = blocks("python", PAGE)
    exec(program + "    __import__('kafka').KafkaProducer(bootstrap_servers=bootstrap).send('a', b'1').get(timeout=30)\n", {})
    (container,) = ProcessForContainer.made
    assert container.image == "pybroker"
    assert container.environment == {"PYBROKER_ADVERTISED": capsys.readouterr().out.strip()}
