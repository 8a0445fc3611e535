"""A broker without the listener imports nothing of it, and hands requests to its dispatcher itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 60
PROGRAM = """
import asyncio, json, sys
from pybroker.broker.broker_server import BrokerServer
from pybroker.config.load import load

async def run():
    broker = BrokerServer(load(overrides=json.loads(sys.argv[1]), port=0).config)
    await broker.start()
    await broker.stop()
    print(json.dumps([[*sys.modules], broker.handler == broker.dispatcher.handle]))

asyncio.run(run())
"""
HEAVY = ("tornado", "yaml", "pybroker.admin", "pybroker.faults", "pybroker.http_server")


def imported(settings: dict[str, str]) -> tuple[set[str], bool]:
    command = [sys.executable, "-c", PROGRAM, json.dumps(settings)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    modules, is_plain = json.loads(run.stdout)
    return {name for name in modules if name.startswith(HEAVY)}, is_plain


def test_a_broker_without_the_listener_imports_nothing_of_it(tmp_path: Path) -> None:
    assert imported({"log.dirs": str(tmp_path)}) == (set(), True)
    modules, is_plain = imported({"log.dirs": str(tmp_path), "pybroker.admin.listener": "http://127.0.0.1:0"})
    assert {"tornado", "pybroker.admin.server", "pybroker.faults.faults"} <= modules
    assert "yaml" not in modules, "only a file of YAML needs it"
    assert not is_plain
