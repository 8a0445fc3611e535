"""Shells complete commands, and the names that a cluster has."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker.cli import completing
from pybroker.cli.main import cli
from pybroker.testing import Broker, ThreadBroker
from tests.cli.cluster import commit, lines

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def broker() -> Iterator[ThreadBroker]:
    with Broker.in_thread() as broker:
        broker.create_topic("orders")
        broker.create_topic("others")
        lines(broker.bootstrap, "produce", "orders", "1", "--transactional-id", "cook")
        commit(broker.bootstrap, "kitchen", "orders", {0: 0})
        yield broker


def completed(shell: str, words: str, **variables: str) -> list[str]:
    """Return what a shell completes at the end of a command line."""
    last = words.rpartition(" ")[2]
    environment = {
        "COMP_WORDS": words,
        "COMP_CWORD": last if shell == "fish" else str(words.count(" ")),
        "_PYBROKER_COMPLETE": f"{shell}_complete",
        "PYBROKER_PROFILES": "/nonexistent",
        **variables,
    }
    done = CliRunner(env=environment).invoke(cli, [], prog_name="pybroker", catch_exceptions=False)
    assert done.stderr == ""
    found = done.stdout.strip().splitlines()
    return found[1::3] if shell == "zsh" else [line.partition(",")[2].partition("\t")[0] for line in found]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_commands(shell: str) -> None:
    assert "_PYBROKER_COMPLETE" in CliRunner().invoke(cli, ["completion", shell], prog_name="pybroker").output
    assert completed(shell, "pybroker topics de") == ["delete", "describe"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("consume or", ["orders"]),
        ("consume ", ["orders", "others"]),
        ("consume __c", ["__consumer_offsets"]),
        ("consume orders --group k", ["kitchen"]),
        ("produce ot", ["others"]),
        ("topics describe o", ["orders", "others"]),
        ("groups describe k", ["kitchen"]),
        ("configs set --topic or", ["orders"]),
        ("transactions abort c", ["cook"]),
        ("wait --topic or", ["orders"]),
    ],
)
def test_shells_complete_the_names_of_the_cluster(broker: ThreadBroker, shell: str, words: str, names: list[str]) -> None:
    assert completed(shell, f"pybroker {words}", PYBROKER_BOOTSTRAP=broker.bootstrap) == names


def test_the_command_line_names_the_cluster(broker: ThreadBroker) -> None:
    assert completed("bash", f"pybroker consume -b {broker.bootstrap} or") == ["orders"]
    assert completed("bash", f"pybroker copy --from {broker.bootstrap} or") == ["orders"]


def test_nothing_is_completed_where_no_broker_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("bash", "pybroker consume or", PYBROKER_BOOTSTRAP="127.0.0.1:1") == []
    assert completed("bash", "pybroker consume or", PYBROKER_BOOTSTRAP="wrong") == []
    assert completed("bash", "pybroker consume --profile none or") == []
    monkeypatch.setattr(completing, "PATIENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert completed("bash", "pybroker groups describe k", PYBROKER_BOOTSTRAP=f"127.0.0.1:{silent.getsockname()[1]}") == []
        assert time.monotonic() - began < 10


def test_bash_calls_the_command(broker: ThreadBroker, tmp_path: Path) -> None:
    """Bash runs the printed script, and calls the command as its users do at a Tab."""
    command = tmp_path / "pybroker"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pybroker "$@"\n')
    command.chmod(0o755)
    script = """
        eval "$(pybroker completion bash)"
        COMP_WORDS=(pybroker consume or); COMP_CWORD=2
        _pybroker_completion pybroker or consume
        echo "${COMPREPLY[*]}"
    """
    environment = {"PYBROKER_BOOTSTRAP": broker.bootstrap, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("orders\n", "")
