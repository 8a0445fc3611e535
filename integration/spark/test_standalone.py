"""The jobs on a real cluster: a master and two workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.standalone import standalone
from testing.clients.stock import unique
from testing.process.class_archive import jvm_options

if TYPE_CHECKING:
    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

SCRIPT = """
import os
import sys
import time
from pathlib import Path

import pyarrow as pa

from pybroker.spark import generate
from pybroker.spark.archive.job import ArchiveOptions
from pybroker.spark.archive.job import run as archive
from pybroker.spark.archive.verify import verify
from pybroker.spark.datasource import register
from pybroker.spark.mirror.job import MirrorOptions
from pybroker.spark.mirror.job import run as mirror
from pybroker.spark.replay.job import ReplayOptions
from pybroker.spark.replay.job import run as replay
from pybroker.spark.session import spark_session

master, bootstrap, topic, path, data_dir, jvm = sys.argv[1:]
conf = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": jvm, "spark.sql.shuffle.partitions": "2"}
spark = spark_session("cluster", master=master, conf=conf)


def executor(batches):
    time.sleep(0.5)
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"parent": [os.getppid()], "python": [sys.executable]})


rows = spark.range(0, 8, 1, 8).mapInArrow(executor, "parent long, python string").collect()
print(len({row.parent for row in rows}), *{row.python for row in rows})
made = generate.GenerateOptions(bootstrap=bootstrap, topic=topic, count=4000, size=100, partitions=4, keys=50)
print(generate.run(spark, made).records)
print(archive(spark, ArchiveOptions(bootstrap=bootstrap, path=Path(path), topics=(topic,))).records)
print(verify(spark, Path(path)).records)
print(replay(spark, ReplayOptions(path=Path(path), bootstrap=bootstrap, to=topic + "-copy")).records)
copied = MirrorOptions(path=Path(path + "-map"), source=bootstrap, target=bootstrap, topics=(topic,), prefix="copy.")
print(mirror(spark, copied).counts.records)
register(spark)
table = spark.read.format("pybroker").option("topic", topic).option("columns", "partition,offset").load(data_dir)
print(table.distinct().count())
spark.stop()
"""


def test_jobs_run_on_a_master_and_two_workers(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    with standalone(tmp_path / "cluster", workers=2) as master:
        arguments = [master, spark_broker.bootstrap, unique("cluster"), str(tmp_path / "archive"), str(spark_broker.data_dir)]
        arguments.append(jvm_options())
        command = [sys.executable, "-c", SCRIPT, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert run.returncode == 0, run.stderr[-3000:]
        assert run.stdout.split() == ["2", sys.executable, *["4000"] * 6]
        progress = ("generate: ", "archive: ", "replay: ", "mirror: ")
        assert all(line.startswith(progress) for line in run.stderr.splitlines()), run.stderr
        for number in range(2):
            assert list((tmp_path / "cluster" / f"work{number}").glob("app-*/*/stderr"))
