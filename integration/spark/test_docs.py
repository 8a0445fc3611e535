"""Runs the examples of docs/spark.md, in their order, as they are written there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.clients.stock import unique

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

JOBS = ("archive", "doctor", "generate", "mirror", "replay", "report")
PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"

RUN_ALL = """
import shlex, sys
from pybroker.cli.main import cli

for example in sys.argv[1:]:
    print("$", example.splitlines()[0], flush=True)
    if example.startswith("pybroker "):
        cli.main(shlex.split(example)[1:], standalone_mode=False)
    else:
        exec(example)
"""  # one process, so that Java is started once


def examples() -> list[str]:
    """Return the indented blocks that are commands of these jobs, or complete Python programs."""
    found = []
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(), re.MULTILINE):
        text = re.sub(r"^    ", "", block, flags=re.MULTILINE).strip()
        if text.startswith(("from ", "import ")) and ("spark_session(" in text or "pyarrow" in text or "State.read(" in text):
            found.append(text)
        elif "pybroker spark" in text:
            lines = text.replace("\\\n", " ").splitlines()
            found += [line for line in lines if line.split()[:2] == ["pybroker", "spark"] and line.split()[2] in JOBS]
    return found


def test_the_examples_of_the_page_work(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = unique("orders")
    commands = [text.replace("localhost:9092", spark_broker.bootstrap).replace("orders", topic) for text in examples()]
    assert len(commands) >= 8
    assert any("--count 100000 " in command for command in commands)
    commands = [
        command.replace("--count 100000 ", "--count 20000 ") for command in commands
    ]  # the number in the page takes a minute longer
    script = [sys.executable, "-c", RUN_ALL, *commands]
    run = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    for line in (
        "round trip 100 records",
        "20,000 records, ",
        "20,000 records archived in",
        "20,000 records in",
        "20,000 records written in",
        "4,000 records written in",
        "20,000 records mirrored in",
        f"{topic}:0:1234",
        f"Origin(topic='{topic}', partition=0, offset=1234)",
        "1 topic, 20,000 records, ",
        "0 records",
    ):
        assert line in run.stdout
