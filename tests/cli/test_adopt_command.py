"""The report of `pybroker adopt`."""

from __future__ import annotations

from pathlib import Path

from pybroker.cli.adopt_command import _start_line
from pybroker.config.broker import BrokerConfig
from pybroker.model import BrokerId


def test_the_start_has_the_configuration_of_the_adoption() -> None:
    loaded = BrokerConfig(node_id=BrokerId(3), log_dirs=("/a", "/b"))
    line = _start_line(loaded, Path("my server.properties"), ("log.retention.ms=-1",))
    own = "--override node.id=3 --override log.dirs=/a,/b"
    assert line == f"Start with: pybroker start --config 'my server.properties' --override log.retention.ms=-1 {own}"
    assert _start_line(loaded, None, ()) == f"Start with: pybroker start {own}"
