"""The help of each command is in whole sentences, and its examples run."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from confluent_kafka import Producer

from pybroker.cli.main import _TASKS, cli
from pybroker.testing import Broker
from tests.cli.cluster import check_words, invoke

TIMEOUT_S = 60
ORDER = (
    "topics create", "topics alter", "topics list", "produce", "consume", "groups reset", "configs set", "wait", "copy", "export",
    "import", "transactions abort", "records delete", "doctor",
)  # fmt: skip
"""The commands with examples, in an order in which each finds what it needs."""
ONLY_PARSED = ("kafka.example", "--start-offset 7")
"""Examples for what the broker of the test does not have."""


def commands(group: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group, by its name."""
    if not isinstance(group, click.Group):
        yield name, group
        return
    context = click.Context(group)
    for one in group.list_commands(context):
        command = group.get_command(context, one)
        assert command is not None
        yield from commands(command, f"{name} {one}".strip())


COMMANDS = dict(commands(cli))


def examples(name: str) -> list[str]:
    """Return the examples at the end of a command's help."""
    lines = (COMMANDS[name].epilog or "").splitlines()
    return [line.strip() for line in lines if "pybroker" in line and "Examples:" in lines]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_is_in_whole_sentences(name: str) -> None:
    command = COMMANDS[name]
    assert command.help is not None
    paragraphs = [" ".join(one.split()) for one in command.help.split("\n\n")]
    options = [one.help for one in command.params if isinstance(one, click.Option) and not one.hidden]
    for text in (*paragraphs, *options):
        assert text, "each option has help"
        assert text[0].isupper() or text[0] in "-'`" or text.startswith("read_"), text
        assert text.endswith("."), text


def test_lists_of_commands_are_not_cut() -> None:
    groups = {name.split()[0] for name in COMMANDS if " " in name}
    assert len(groups) > 5
    for name in sorted(groups):
        assert "..." not in invoke("", name, "--help").stdout.partition("Commands:\n")[2]
    assert {name for names in _TASKS.values() for name in names} == {name.split()[0] for name in COMMANDS}


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {name for name in COMMANDS if examples(name)} == set(ORDER)
    with Broker.in_thread() as broker:
        for line in [line for name in ORDER for line in examples(name)]:
            before, _, words = line.rpartition("| ")
            name, *arguments = shlex.split(words)
            assert name == "pybroker"
            if any(part in line for part in ONLY_PARSED):
                check_words(*arguments)
                continue
            if "abort cook" in line:
                producer = opened(broker.bootstrap, "cook")
            shell = ["sh", "-c", before.removesuffix(" ")] if before else ["true"]
            given = subprocess.run(shell, capture_output=True, timeout=TIMEOUT_S, check=True).stdout
            ran = invoke(broker.bootstrap, *arguments, given=given)
            assert ran.exit_code == 0, f"{line}\n{ran.output}"
        del producer


def opened(bootstrap: str, transactional_id: str) -> Producer:
    """Return a producer with an open transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"1")
    producer.flush(TIMEOUT_S)
    return producer
