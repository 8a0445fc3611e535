"""A class data archive for the JVMs of Spark, made once by `python -m testing.process.class_archive`.

Most of a short Spark job's processor time is the loading and verifying of some ten thousand classes. A JVM that gets
`-XX:SharedArchiveFile` maps them from a file instead. It checks that the file is of the same JVM and the same jars, and otherwise
starts without it, so an old or a missing file costs time and nothing else. With the archive a first small query takes half of the
processor time (7 s instead of 13 s, the start of the JVM included); the archive itself takes 40 s.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from pybroker.spark.java import find_java
from testing.places import cache_dir
from testing.process.java import QUICK_JVM, archive_options
from testing.waiting import LONG_WAIT_S

SPARK_JVM: Final = (
    *QUICK_JVM, "-XX:ReservedCodeCacheSize=256m", "-XX:-UseCodeCacheFlushing", "-XX:CompileThresholdScaling=0.15",
    *(["-XX:+UseTransparentHugePages"] if Path("/sys/kernel/mm/transparent_hugepage").exists() else []),
)  # fmt: skip
"""With the first compiler alone, a JVM has 48 MB for what it compiles. Spark's methods fill that. The JVM then throws methods out
and compiles them again, which takes a fifth of its processor time. It compiles sooner too, which saves a tenth of the rest. Large
pages save a little more."""

JOB = """
import sys
from pybroker.spark.session import spark_session

folder = sys.argv[1]
spark = spark_session("classes", master="local[1]", conf={"spark.sql.shuffle.partitions": "1", "spark.local.dir": folder})
numbers = spark.range(100).selectExpr("id % 7 as a", "cast(id as string) as t", "current_timestamp() as at")
rows = numbers.mapInArrow(lambda batches: batches, numbers.schema)
rows.groupBy("a").count().orderBy("a").write.parquet(f"{folder}/table")
table = spark.read.parquet(f"{folder}/table")
table.join(rows, "a").selectExpr("sum(count) over (order by a)").collect()
stream = spark.readStream.schema(table.schema).parquet(f"{folder}/table").writeStream.trigger(availableNow=True)
stream = stream.option("checkpointLocation", f"{folder}/checkpoint").foreachBatch(lambda frame, _: frame.count())
stream.start().awaitTermination()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()  # ends the JVM, which writes the archive at its end
sys.exit(java.wait(240))
"""
"""Everything that most jobs do: plans, files, streams, Python workers."""


def jvm_options() -> str:
    """Return the options for the JVMs of short Spark jobs. The archive need not be there."""
    return " ".join((*SPARK_JVM, *archive_options(_archive())))


def make() -> None:
    """Make the archive, if it is missing. Raises RuntimeError, PipelineError or TimeoutExpired when it cannot be made."""
    archive = _archive()
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        _make(archive)


def _archive() -> Path:
    """Return where the archive of this Java and these jars is kept."""
    from pyspark import __file__ as pyspark_file  # noqa: PLC0415 (an extra)

    java = find_java()
    jars = sorted((Path(pyspark_file).parent / "jars").glob("*.jar"))
    parts = [str(java.executable.resolve()), java.version, *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)]
    return cache_dir() / f"spark-classes-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.jsa"


def _make(archive: Path) -> None:
    """Run a job in a JVM that writes the archive at its end."""
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        fresh = Path(folder) / "classes.jsa"
        options = f"{' '.join(QUICK_JVM)} -XX:ArchiveClassesAtExit={fresh} -Xlog:cds*=off"
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        command = [sys.executable, "-c", JOB, folder]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
        if run.returncode != 0 or not fresh.exists():
            raise RuntimeError(f"Spark's classes cannot be archived: {run.stdout[-1000:]}{run.stderr[-1000:]}")
        fresh.replace(archive)


if __name__ == "__main__":
    make()
