"""The report of `pybroker adopt`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pybroker.cli import start
from pybroker.cli.adopt_command import _start_line
from pybroker.config.broker import BrokerConfig
from pybroker.model import BrokerId


@pytest.mark.parametrize("config", [Path("my server.properties"), None])
def test_the_start_has_the_configuration_of_the_adoption(config: Path | None) -> None:
    loaded = BrokerConfig(node_id=BrokerId(3), log_dirs=("/a", "/b"))
    head, _, line = _start_line(loaded, config, ("log.retention.ms=-1",)).partition(": ")
    program, name, *arguments = shlex.split(line)
    assert (head, program, name) == ("Start with", "pybroker", "start")
    with start.command.make_context("start", arguments) as context:  # refuses what the command does not have
        given = context.params
    assert given["config"] == config
    assert given["overrides"] == ("log.retention.ms=-1", "node.id=3", "log.dirs=/a,/b")
