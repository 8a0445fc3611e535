"""Each example of docs/testing.md is complete, and passes as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.testing import Broker
from testing.places import ROOT

PAGE = ROOT / "docs" / "testing.md"
EXAMPLES = ROOT / "examples"
README = ROOT / "README.md"
PLUGINS = ("pybroker.testing.plugin", "pytest_asyncio.plugin")
API = "http://127.0.0.1:8080"
TIMEOUT_S = 300
TESTS = re.compile(r"^\s*(?:async )?def test_", re.MULTILINE)


def blocks(language: str, page: Path = PAGE) -> list[str]:
    """Return the fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def example_of_the_readme() -> str:
    """Return its test."""
    return next(block for block in blocks("python", README) if TESTS.search(block))


def test_the_readme_has_the_example_of_the_page() -> None:
    assert example_of_the_readme() == blocks("python")[0]


def test_the_examples_pass(tmp_path: Path) -> None:
    examples = blocks("python")
    assert len(examples) >= 5
    for number, example in enumerate(examples):
        assert TESTS.search(example), f"not a test: {example}"
        (tmp_path / f"test_example_{number}.py").write_text(example)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [part for plugin in PLUGINS for part in ("-p", plugin)]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{sum(len(TESTS.findall(example)) for example in examples)} passed" in run.stdout


def run_examples(files: list[Path], folder: Path, *plugins: str, **variables: str) -> None:
    """Run the tests of the files, copied to where this repository's settings of pytest do not reach."""
    for file in files:
        shutil.copy(file, folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [part for plugin in (PLUGINS[0], *plugins) for part in ("-p", plugin)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{sum(len(TESTS.findall(file.read_text())) for file in files)} passed" in run.stdout


def test_the_example_files_pass(tmp_path: Path) -> None:
    run_examples([*EXAMPLES.glob("test_*.py")], tmp_path)


def test_the_example_with_faststream_passes(tmp_path: Path) -> None:
    pytest.importorskip("faststream")
    run_examples([*(EXAMPLES / "faststream").glob("*.py")], tmp_path, "anyio.pytest_plugin")


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_requests_of_the_page_are_taken() -> None:
    (commands,) = blocks("bash")
    with Broker.in_thread({"pybroker.admin.listener": "http://127.0.0.1:0"}, virtual_time=True) as broker:
        assert commands.count(API) == 1
        command = ["bash", "-euc", commands.replace(API, str(broker.admin_url))]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.stdout.count("\n") == commands.count("curl ")
        assert broker.faults.rules == {}


def test_the_settings_of_the_page_are_taken(tmp_path: Path) -> None:
    (ini,) = blocks("ini")
    (tmp_path / "pytest.ini").write_text(ini)
    (tmp_path / "test_it.py").write_text(
        "def test_it(kafka_broker):\n    kafka_broker.create_topic('a', -1)\n"
        "    assert len(kafka_broker.topics()['a'].partitions) == 3\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGINS[0]]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
