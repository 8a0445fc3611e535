"""`pybroker report`: what it refuses, and how its processes connect. Beside Kafka, integration/cli runs it whole."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path

import pytest

from pybroker.terminal.profiles import target_of
from pybroker.terminal.wire import ConnectBy
from pybroker.testing import Broker
from tests.cli.cluster import refusal

NOWHERE = "127.0.0.1:1"


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "report")
    assert refusal(NOWHERE, "report", path, "a", "--pattern", "b", code=2) == "give TOPIC or --pattern, not both"
    for nothing in (("--from", "end"), ("--until", "beginning"), ("--from", "-0")):
        assert "there is nothing before the beginning" in refusal(NOWHERE, "report", path, *nothing, code=2)
    assert "--until -5: must be an offset" in refusal(NOWHERE, "report", path, "--until", "-5", code=2)


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else name)
    refused = refusal(NOWHERE, "report", str(tmp_path / "report"))
    assert refused == "pybroker report needs matplotlib: pip install matplotlib"


def test_another_process_connects_with_the_same_settings() -> None:
    with Broker.in_thread() as broker:
        target = target_of({}, bootstrap=broker.bootstrap, timeout_s=7)
        copied = pickle.loads(pickle.dumps(ConnectBy(target)))
        host, _, port = broker.bootstrap.rpartition(":")
        copied(host, int(port)).close()
    assert copied.__reduce__()[1] == (broker.bootstrap, target.properties)
