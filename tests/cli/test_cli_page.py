"""Each example of docs/cli.md prints what stands there: numbers of bytes, times and seconds aside."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from pybroker.cli.main import cli
from pybroker.testing import Broker
from testing.places import ROOT
from tests.cli.cluster import check_words, invoke

PAGE = ROOT / "docs" / "cli.md"
TIMEOUT_S = 60
VARYING = re.compile(r'\d+ B\b|\d+\.\d (?:s|MB)\b|"timestamp_ms": \d+')
TABLE = re.compile(r"^\| [^|]+ \| (`.*`[^|]*) \|$", re.MULTILINE)


def sessions() -> list[tuple[str, str]]:
    """Return the commands of the page, each with what it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def without_numbers(text: str) -> list[str]:
    """Return the lines, without what differs from one run to the next, and without the width of columns."""
    lines = [line for line in text.splitlines() if line and not line.startswith(("Usage: ", "Try '"))]
    return [re.sub(r" +", " ", VARYING.sub("N", line)) for line in lines]


def test_the_commands_of_the_page_print_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = sessions()
    assert len(found) > 15
    with Broker.in_thread() as broker:
        for command, output in found:
            given, _, words = command.rpartition("| ")
            shell = ["sh", "-c", given.removesuffix(" ")] if given else ["true"]
            standard_input = subprocess.run(shell, capture_output=True, timeout=TIMEOUT_S, check=True).stdout
            name, *arguments = shlex.split(words)
            assert name == "pybroker"
            ran = invoke(broker.bootstrap, *arguments, given=standard_input)
            assert without_numbers(ran.output) == without_numbers(output), command


def test_the_other_examples_of_the_page_have_options_that_exist() -> None:
    """These name clusters that no test has, or need packages that the unit tests do not have."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(found) > 3
    for name, *words in found:
        assert name == "pybroker"
        check_words(*words)


def test_the_commands_of_the_table_exist() -> None:
    named = [words for cells in TABLE.findall(PAGE.read_text()) for words in re.findall(r"`([a-z][^`]*)`", cells)]
    assert len(named) > 20
    context = cli.make_context("pybroker", ["--help"], resilient_parsing=True)
    for words in named:
        name, *rest = words.split()
        command = cli.get_command(context, name)
        if command is None:
            assert name in ("beginning", "end", "jsonl", "batches", "jq", "pybroker"), words
        elif rest and not rest[0].startswith("-") and hasattr(command, "commands"):
            assert rest[0] in command.commands, words
