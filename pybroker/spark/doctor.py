"""Checks that everything that the jobs need is installed, and that records reach a broker and come back."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.spark.cluster import Cluster
from pybroker.spark.connector import connector_jars
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained
from pybroker.spark.java import find_java
from pybroker.spark.session import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START_TIMEOUT_S: Final = 60
_RECORDS: Final = 100


def describe(show: Callable[[str], None], jars: Path | None = None) -> None:
    """Report what is installed. Raises PipelineError at the first thing that is missing."""
    show(f"Python     {sys.version.split()[0]} at {sys.executable}")
    show(f"PySpark    {check_pyspark()}")
    java = find_java()
    show(f"Java       {java.version} from {java.origin} at {java.executable}")
    files = connector_jars(jars)
    show(f"connector  {files[0].parent}")
    for file in files:
        show(f"           {file.name}")


def round_trip(spark: SparkSession, bootstrap: str) -> str:
    """Write through Spark's sink to a new topic, read the topic back and delete it. Raises PipelineError."""
    cluster, topic = Cluster(bootstrap), f"pybroker-doctor-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, 2)
    began = time.monotonic()
    try:
        with explained():
            rows = spark.range(_RECORDS).selectExpr("cast(id as string) key", "cast(id * id as string) value")
            rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
            reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
            found = reader.load().selectExpr("cast(key as string) key", "cast(value as string) value").collect()
    finally:
        with contextlib.suppress(PipelineError):
            cluster.delete_topic(topic)
    if sorted((row.key, row.value) for row in found) != sorted((str(n), str(n * n)) for n in range(_RECORDS)):
        raise PipelineError(f"{_RECORDS} records were written to {bootstrap}but {len(found)} others came back")
    return f"{_RECORDS} records to {bootstrap} and back in {time.monotonic() - began:.1f} s"


@contextlib.contextmanager
def own_broker() -> Iterator[str]:
    """Run a broker on a free port of the loopback during the block, and delete its data afterwards. Raises PipelineError."""
    with tempfile.TemporaryDirectory(prefix="pybroker-doctor-") as folder:
        command = [sys.executable, "-m", "pybroker", "start", "--port", "0", "--data-dir", str(Path(folder) / "data")]
        with (Path(folder) / "log").open("w+b") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, process_group=0)  # noqa: S603
            try:
                ready = re.fullmatch(r"READY (\S+:\d+)", _first_line(process))
                if ready is None:
                    log.seek(0)
                    last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
                    raise PipelineError(f"the broker for the round trip does not start: {last}")
                yield ready[1]
            finally:
                process.kill()
                process.communicate()


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    text, deadline = b"", time.monotonic() + _START_TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in text and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                break
            text += piece
    return text.decode(errors="replace").partition("\n")[0]
