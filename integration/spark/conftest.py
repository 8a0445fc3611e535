"""One SparkSession for all tests that need Spark, because starting a session takes longer than most of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.plans import INTERPRETED
from testing.places import cache_dir
from testing.process.broker import BrokerProcess, own_brokers
from testing.process.class_archive import jvm_options
from testing.process.java import QUICK_JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration.spark.audits import Flow


HERE = Path(__file__).parent
TIMEOUT_S = 1500  # several times what the longest of these takes beside other work on two cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session", autouse=True)
def _cache() -> None:
    """Set variables, also for processes that tests start. The jars stay in the folder of everything else that tests download."""
    os.environ.setdefault("PYBROKER_CACHE_DIR", str(cache_dir()))
    os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm_options())
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", " ".join(QUICK_JVM))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Make the session as `pybroker spark` makes it: local, with two cores."""
    from pybroker.spark.session import spark_session  # noqa: PLC0415 (not every run of the tests comes here)

    conf = {"spark.local.dir": str(tmp_path_factory.mktemp("spark")), "spark.sql.shuffle.partitions": "2"}
    session = spark_session("tests", master="local[2]", conf=conf)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def spark_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Start a broker that the tests with Spark share; they give their topics unique names."""
    broker = BrokerProcess(tmp_path_factory.mktemp("spark_broker"), {"log.retention.ms": "-1"})  # generated times may be old
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Start a broker that the test may kill: `own_broker({"key": "value"})`."""
    with own_brokers(tmp_path) as start:
        yield start


@pytest.fixture
def flow(spark_broker: BrokerProcess) -> Iterator[Flow]:
    """Make a topic that is copied record by record."""
    from integration.spark.audits import Flow  # noqa: PLC0415 (kafka-python warns when it is imported)

    flow = Flow(spark_broker.bootstrap)
    try:
        yield flow
    finally:
        flow.close()


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the audits' own sessions interpret their plans."""
    from pybroker.spark.audit import passes  # noqa: PLC0415 (an extra)

    for name, value in INTERPRETED.items():
        monkeypatch.setitem(passes._CONF, name, value)
