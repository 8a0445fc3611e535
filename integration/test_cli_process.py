"""The command as a process: what a shell and an operator see."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pybroker import __version__


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False)


def test_version_of_the_module() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"pybroker {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (
            ["--override", "queued.max.request.bytes=5"],
            {},
            "queued.max.request.bytes=5: must be larger than socket.request.max.bytes",
        ),
        ([], {"KAFKA_NUM_PARTITIONS": "0"}, "num.partitions=0: must be at least 1 (from KAFKA_NUM_PARTITIONS)"),
        (["/no/such/file"], {}, "cannot read /no/such/file: No such file or directory"),
    ],
)
def test_a_refused_configuration_is_one_line_and_exit_code_2(
    arguments: list[str], environment: dict[str, str], message: str
) -> None:
    done = run("start", *arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1


def test_help_imports_nothing_that_is_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from pybroker.cli.main import cli;"
        "CliRunner().invoke(cli, ['--version']);"
        "print(*sorted({'pydantic', 'uvloop', 'prometheus_client', 'pybroker.broker'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"


def test_the_configuration_does_without_prometheus_and_without_the_network() -> None:
    code = (
        "import sys; from pybroker.config.load import load; load();"
        "print(*sorted({'prometheus_client', 'uvloop', 'pybroker.network'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"
