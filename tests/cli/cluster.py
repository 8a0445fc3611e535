"""Runs commands for a cluster on a broker of a test, as a person types them."""

from __future__ import annotations

import json
from typing import Any

import click
from click.testing import CliRunner, Result

from pybroker.cli.main import cli
from pybroker.terminal.profiles import target_of
from pybroker.terminal.session import Cluster
from pybroker.tools.groups_admin import Partition


def invoke(bootstrap: str, *words: str, given: str | bytes | None = None) -> Result:
    """Run a command, with the broker in a variable, and `given` on its standard input."""
    environment = {"PYBROKER_BOOTSTRAP": bootstrap, "PYBROKER_PROFILES": "/nonexistent"}
    return CliRunner(env=environment).invoke(cli, words, input=given, prog_name="pybroker", catch_exceptions=False)


def lines(bootstrap: str, *words: str, given: str | bytes | None = None) -> list[str]:
    """Return the lines that a command prints; it succeeds, and has nothing to report on stderr."""
    done = invoke(bootstrap, *words, given=given)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout.splitlines()


def objects(bootstrap: str, *words: str, given: str | bytes | None = None) -> list[dict[str, Any]]:
    """Return the objects that a command prints with --json."""
    return [json.loads(line) for line in lines(bootstrap, *words, "--json", given=given)]


def refusal(bootstrap: str, *words: str, code: int = 1) -> str:
    """Return the one line with which a command ends that cannot do what it should."""
    done = invoke(bootstrap, *words)
    assert done.exit_code == code, done.output
    assert done.stderr.startswith("Error: " if code == 1 else ("Error: ", "Usage: "))
    return done.stderr.splitlines()[-1].removeprefix("Error: ")


def check_words(*words: str) -> None:
    """Check that a command with these options and arguments exists, without running it. Raises UsageError."""
    command: click.Command | None = cli
    while isinstance(command, click.Group):
        name, *words_left = words
        command, words = command.get_command(click.Context(command), name), tuple(words_left)
    assert command is not None
    command.make_context("pybroker", [*words])


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit offsets as a consumer does that is no member."""
    with Cluster(target_of({}, bootstrap=bootstrap)) as cluster:
        cluster.commit(group, {Partition(topic, index): offset for index, offset in offsets.items()})
