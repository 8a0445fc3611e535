"""A broker does not outlive the process that started it, also if it cannot stop."""

from __future__ import annotations

import subprocess
import sys

import pytest

TIMEOUT_S = 60
CHILD = """
import asyncio, os, sys, time
from pybroker.broker import parent_process

parent_process.LOOK_S = parent_process.EXIT_S = 0.01

async def run():
    stop = asyncio.Event()
    parent_process.stop_without(os.getppid(), asyncio.get_running_loop(), stop)
    print("begun", flush=True)
    if sys.argv[1] == "hangs":
        time.sleep(3600)
    await stop.wait()
    print("stopped", flush=True)
    if sys.argv[1] == "stops":
        os._exit(0)
    await asyncio.Event().wait()

asyncio.run(run())
"""
PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.DEVNULL)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("kind", "lines"), [("stops", ["begun", "stopped"]), ("waits", ["begun", "stopped"]), ("hangs", ["begun"])]
)
def test_a_process_ends_after_its_parent_in_whatever_state_it_is(kind: str, lines: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        found = [parent.stdout.readline().strip()]
        parent.stdin.close()  # the parent ends
        parent.wait(TIMEOUT_S)
        found += parent.stdout.read().split()  # until the child has ended
    assert found == lines
