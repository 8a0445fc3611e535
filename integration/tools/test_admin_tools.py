"""Commands whose output cannot be compared with Kafka's, because the names are our own. `test_tools_compared.py` has the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testing.process.tool_runner import ToolRunner

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


def test_kafkas_tool_changes_the_levels_of_loggers(bootstrap: str, tmp_path: Path) -> None:
    name = "pybroker.metadata.controller"
    of_loggers = ("--bootstrap-server", bootstrap, "--entity-type", "broker-loggers", "--entity-name", "1")
    tools = ToolRunner("3.9.2", tmp_path)
    try:
        changed = tools.run("configs", *of_loggers, "--alter", "--add-config", f"{name}=WARN")
        assert (changed.code, changed.out) == (0, "Completed updating config for broker-logger 1.\n")
        described = tools.run("configs", *of_loggers, "--describe").out.splitlines()
        assert f"  {name}=WARN sensitive=false synonyms={{}}" in described
        assert tools.run("configs", *of_loggers, "--alter", "--delete-config", name).code == 0
        refused = tools.run("configs", *of_loggers, "--alter", "--add-config", f"{name}=LOUD")
        assert refused.code == 1
        assert "InvalidConfigurationException" in refused.err
    finally:
        tools.close()
