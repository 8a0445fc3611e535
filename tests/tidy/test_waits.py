"""Every wait of a test has a limit: a wait without one ends in pytest-timeout, which ends the whole run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.places import ROOT
from tests.tidy.sources import for_each, nodes, tree

WITHOUT_A_LIMIT = {"acquire", "communicate", "get", "join", "result", "wait"}
"""Methods of processes, threads, queues, futures and locks that wait without end if they get no argument."""
RUNS = {"call", "check_call", "check_output", "run"}
NAMES = WITHOUT_A_LIMIT | RUNS | {"flush", "readline", "urlopen", "create_connection", "Thread"}
EXCEPTIONS = {
    "broker.wait()",  # the peer's own process, which a test starts and ends
    "worker.join()",  # a class of the test's own, whose join has a limit
}
SIMULATED = ROOT / "testing" / "simulation" / "cluster"  # whose waits are on a simulated clock, and take no time of this machine
SOURCES = sorted(
    path for folder in ("testing", "integration") for path in (ROOT / folder).rglob("*.py") if not path.is_relative_to(SIMULATED)
)


def endless(module: ast.Module) -> Iterator[str]:
    calls = [(node, node.func) for node in nodes(module) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    waits = [node for node, called in calls if called.attr == "wait_for" and ast.unparse(called.value) == "asyncio"]
    limited = {id(inner) for node in waits for inner in nodes(node)}
    for node, called in calls:
        if called.attr in NAMES and id(node) not in limited:
            owner, names = ast.unparse(called.value), {keyword.arg for keyword in node.keywords}
            is_bare = not node.args and not names
            if (
                (called.attr in WITHOUT_A_LIMIT and is_bare)
                or (called.attr == "communicate" and "timeout" not in names)
                or (called.attr == "flush" and is_bare and "producer" in owner.lower())
                or (owner == "subprocess" and called.attr in RUNS and "timeout" not in names)
                or (called.attr == "readline" and owner.endswith((".stdout", ".stderr")))
                or (called.attr == "urlopen" and "timeout" not in names)
                or (called.attr == "create_connection" and len(node.args) < 2 and "timeout" not in names)
                or (called.attr == "Thread" and owner == "threading" and "daemon" not in names)
            ):
                yield f"line {node.lineno}: {ast.unparse(node)}"


@for_each(SOURCES)
def test_every_wait_has_a_limit(path: Path) -> None:
    found = [line for line in endless(tree(path)) if line.partition(": ")[2] not in EXCEPTIONS]
    assert not found, f"{path}: give it a limit, testing/waiting.py helps"


@pytest.mark.parametrize(
    "line",
    [
        "process.wait()", "process.communicate()", "process.communicate(b'x')", "items.get()", "future.result()",
        "lock.acquire()", "producer.flush()", "subprocess.run(command, check=True)", "process.stdout.readline()",
        "urllib.request.urlopen(url)",
        "socket.create_connection(address)", "threading.Thread(target=run)",
    ],
)  # fmt: skip
def test_a_wait_without_a_limit_is_found(line: str) -> None:
    assert [*endless(ast.parse(line))]


@pytest.mark.parametrize(
    "line",
    [
        "process.wait(30)", "process.communicate(timeout=30)", "items.get(timeout=1)", "subprocess.run(command, timeout=30)",
        "asyncio.wait_for(event.wait(), 30)", "', '.join(words)", "threading.Thread(target=run, daemon=True)",
    ],
)  # fmt: skip
def test_a_wait_with_a_limit_passes(line: str) -> None:
    assert not [*endless(ast.parse(line))]
