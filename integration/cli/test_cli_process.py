"""The command as a process: what a shell and an operator see."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker import __version__
from testing.process.broker import BrokerProcess
from testing.waiting import Deadline


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False)


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_module_prints_its_version() -> None:
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
        (["--env"], {"KAFKA_NUM_PARTITIONS": "0"}, "num.partitions=0: must be at least 1 (from KAFKA_NUM_PARTITIONS)"),
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


def test_help_imports_no_large_library() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from pybroker.cli.main import cli;"
        "CliRunner().invoke(cli, ['--version']);"
        "print(*sorted({'pydantic', 'uvloop', 'prometheus_client', 'pybroker.broker.process'} & sys.modules.keys()))"
    )
    assert printed(code) == "\n"


def test_the_configuration_imports_neither_prometheus_nor_the_network() -> None:
    code = (
        "import sys; from pybroker.config.load import load; load();"
        "print(*sorted({'prometheus_client', 'uvloop', 'pybroker.network'} & sys.modules.keys()))"
    )
    assert printed(code) == "\n"


HEAVY = {
    *("prometheus_client", "tornado", "pyarrow", "pyspark"),
    *("pybroker.coordinator.service", "pybroker.inspection", "pybroker.tools"),
}
"""The modules that an idle broker does without. Each costs memory, and time at the start."""


def test_an_idle_broker_has_loaded_only_what_it_uses(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "pybroker", "start"]
    broker = BrokerProcess(tmp_path, start_command=command)
    broker.start()
    broker.stop()
    imported = {line.rpartition("|")[2].strip() for line in broker.log_file.read_text().splitlines()}
    assert {"asyncio", "pybroker.broker.process"} < imported
    assert not imported & HEAVY
    assert not any(name.startswith("pybroker.spark.") for name in imported), "only the package itself, which has no code"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_the_start_ends_the_process_quietly(tmp_path: Path, number: signal.Signals) -> None:
    """Hold the start where it reads a file that no process writes to.

    Python notices a signal that comes just before the read only after the read, so the file ends after the signal.
    """
    held = tmp_path / "held"
    os.mkfifo(held)
    command = [sys.executable, "-m", "pybroker", "start", "--port", "0", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen([*command, "--log-config", str(held)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            writer = -1
            deadline = Deadline("the start's reading of its logging configuration")
            while writer < 0:  # the file has a reader, so the start has come to it
                try:
                    writer = os.open(held, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:
                    assert process.poll() is None
                    deadline.check()
            process.send_signal(number)
            os.close(writer)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, output, errors) == (0, b"", b"")


def test_a_signal_that_comes_before_python_is_up_is_not_lost(tmp_path: Path) -> None:
    """Block signals as an image's start does.

    The first process of a container gets no signal for which it has no handler.
    """
    command = [sys.executable, "-m", "pybroker", "start", "--port", "0", "--data-dir", str(tmp_path / "data")]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # the process inherits the mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "")
