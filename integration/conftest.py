"""Fixtures of the integration tests: real brokers, sockets and clients."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from integration.turns_report import TurnsReport
from pybroker.sharing.turns.watchdog import FAIL, SWITCH
from testing.process.broker import BrokerProcess, check_all_turns, external_bootstrap, own_brokers
from testing.process.tool_runner import Tool, ToolRunner

LONG_TURN_MS: Final = 300
"""The bound is 20 ms on a quiet machine. Beside other tests on shared cores the same work takes several times the CPU time."""
KAFKA_RELEASES: Final = ("3.9.2", "4.3.1")
SPARK: Final = Path(__file__).parent / "spark"
SESSIONS: Final = {
    "audits": ("test_audit.py", "test_audit_incremental", "test_audit_transactions"),
    "copies": ("test_archive", "test_docs", "test_generate", "test_mirror", "test_replay"),
}
"""The files with Spark that share a worker, and so a session, by how their names begin. All other files with Spark share one too.

A session's first audit or archive takes three times the processor time of the next one, because its JVM has compiled nothing yet.
With all audits in one session, its worker ran alone for the last two of twelve minutes.
"""
WAITING: Final = (
    "image/test_container.py", "cluster/test_faults.py", "transactions/test_transaction_loops.py",
    "groups/test_groups_clients.py", "network/test_fuzz_network.py", "groups/test_groups_migration.py", "adoption/test_leave.py",
    "groups/test_groups_java.py", "clients/test_old_clients_python.py", "tools/test_tools_compared.py", "adoption/test_adopt.py",
    "cluster/test_kills.py", "durability/test_crash_recovery.py", "transactions/test_transactions_java.py",
    "tools/test_commands_story.py", "tools/test_commands_java.py", "testing_kit/test_plugin.py", "testing_kit/test_remote.py",
)  # fmt: skip
"""The files without Spark that take longest, half a minute and more, and mostly wait: they begin while those with Spark compute.

At the end of a run, the last of them was all that was left to do for more than a minute.
"""
assert all((SPARK.parent / name).exists() for name in WAITING)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault(SWITCH, f"{FAIL}:{LONG_TURN_MS}")  # of every broker that the tests start
    config.pluginmanager.register(TurnsReport(config))
    # kafka-python loads its message definitions in a deprecated way, some on import and some when first used
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files with Spark come first, because they take longest, and then those that wait."""
    places = {SPARK.parent / name: place for place, name in enumerate(WAITING, start=1)}
    items.sort(key=lambda item: 0 if item.path.is_relative_to(SPARK) else places.get(item.path, len(places) + 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distribute files, as `--dist loadfile` does, except that files with Spark share a few workers."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # noqa: PLC0415 (not every run has workers)

    class BySession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return session_of(str(super()._split_scope(nodeid)))

    return BySession(config, log)


def session_of(file: str) -> str:
    """Return the name of the Spark session that a file's tests share, or else the file."""
    folder, _, name = file.rpartition("/")
    if not folder.endswith("integration/spark"):
        return file
    return next((session for session, begins in SESSIONS.items() if name.startswith(begins)), "tables")


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker with default settings, shared by all tests that need nothing special of it, and yield its host:port."""
    external = external_bootstrap()
    if external:
        yield external
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.close()


@pytest.fixture(scope="session", autouse=True)
def _hangups() -> None:
    """Let SIGHUP end the processes that tests start, also under nohup. They would inherit that it is ignored, but no handler."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(autouse=True)
def _no_long_turns() -> Iterator[None]:
    """Fail the test during which a turn of a broker's loop was too long, even if tests share the broker."""
    yield
    check_all_turns()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Yield a function that starts a broker of the test's own: `start_broker({"key": "value"})`.

    Skips the test where the tests use a running broker.
    """
    if external_bootstrap():
        pytest.skip("needs a broker that it may restart or configure")
    with own_brokers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module", params=KAFKA_RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    """Return a release of Kafka whose tools run: the last one of 3.x, and one of 4.x."""
    return str(request.param)


@pytest.fixture(scope="module")
def tool(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    """Yield a function that runs a tool of the release: `tool(name, *arguments, given="", code=0)` returns stdout."""
    runner = ToolRunner(release, tmp_path_factory.mktemp("tools"))
    yield runner.succeed
    runner.close()


@pytest.fixture
def new_topic(bootstrap: str) -> Callable[..., str]:
    """Return a function that creates a topic of the test's own: `new_topic(partitions=1, **configs)` -> its name."""
    from testing.clients.stock import create_topic, unique  # noqa: PLC0415 (the clients are slow to import, and not every test needs them)

    def create(partitions: int = 1, **configs: str) -> str:
        name = unique("test")
        create_topic(bootstrap, name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    return create
