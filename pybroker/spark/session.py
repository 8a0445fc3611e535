"""Makes the SparkSession of a job: with Java, the connector's jars, this interpreter for the workers, UTC, and no logs; and
refuses first what cannot run: another PySpark, a master that is not there."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker import extras
from pybroker.spark.connector import SPARK_VERSION, connector_jars
from pybroker.spark.errors import PipelineError
from pybroker.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_CONNECT_TIMEOUT_S: Final = 10.0
_CALL_SITE: Final = ("callSite.short", "callSite.long")
_CLASSES_WITHOUT_PACKAGE: Final = (
    "org.apache.spark.api.python.PythonRDD",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SerDeUtil",
    "org.apache.spark.api.python.SimplePythonFunction",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
_LOOPBACK: Final = ("local", "spark://127.0.0.1:", "spark://localhost:")


def spark_session(
    app_name: str, *, master: str = "local[*]", jars: Path | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session, the existing one of this process if there is one.

    `jars` is a folder with the connector; `conf` overrides what is set here. Raises PipelineError when PySpark, Java, the
    connector or the master is missing.
    """
    check_pyspark()
    _check_master(master)
    java, files = find_java(), connector_jars(jars)
    settings = {**_settings(master), "spark.jars": ",".join(str(file) for file in files), **(conf or {})}
    from pyspark.sql import SparkSession

    # Spark would also report a failed query as JSON lines, although the exception has everything.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(JAVA_HOME=str(java.home()), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise PipelineError(f"Spark does not start with master {master}: {first_line(error)}") from error
    _spare_searches(session)
    return session


def _spare_searches(session: SparkSession) -> None:
    """Spare the JVM two searches, which take up to a quarter of the driver's processor time.

    PySpark names some classes without their package. py4j then looks for the class in eight packages, each time, and so in 270
    jars. And for each RDD, Spark goes through the stack to find the line of the user's program, which only its web page shows.
    """
    from py4j.java_gateway import java_import
    from pyspark.traceback_utils import SCCallSiteSync

    context = session.sparkContext
    for name in _CLASSES_WITHOUT_PACKAGE:
        java_import(context._jvm, name)
    if session.conf.get("spark.ui.enabled", "true") == "false" and context.getLocalProperty(_CALL_SITE[0]) is None:
        SCCallSiteSync(context).__enter__()  # never left: else the end of each collect() would take away what is set here
        for name in _CALL_SITE:
            context.setLocalProperty(name, context.appName)


def check_pyspark() -> str:
    """Return the version of PySpark. Raises PipelineError when it is missing or is not the connector's version."""
    try:
        version = str(importlib.import_module("pyspark.version").__version__)
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise PipelineError(f"{error.name} is missing: {extras.command('spark')}") from error
    if version != SPARK_VERSION:
        raise PipelineError(f"PySpark {version} is installed, but the jobs need {SPARK_VERSION}: {extras.command('spark')}")
    return version


def _check_master(master: str) -> None:
    """Check that a master responds. Spark itself tries for a minute before it reports that there is none."""
    if not master.startswith("spark://"):
        return
    reason = "the address must be spark://HOST:PORT"
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return
    raise PipelineError(f"no Spark master at {master}: {reason}")


def first_line(error: BaseException) -> str:
    """Return the message of an exception without the Java stack that follows it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings["spark.driver.memory"] = "2g"
        settings["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    if master.startswith(_LOOPBACK):  # works whatever the machine's name resolves to
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for the JVM that starts in the block. PYSPARK_* remain set, because each worker reads them again."""
    before = os.environ.get("JAVA_HOME")
    os.environ.update(variables)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before
