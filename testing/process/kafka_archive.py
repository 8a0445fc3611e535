"""A class data archive for the JVMs of a release of Apache Kafka, made once by `python -m testing.process.kafka_archive`.

Most of the processor time of a short run of Kafka is the loading and verifying of thousands of classes, which a JVM can map from
a file instead. A broker's start takes half of the time with the archive, and so does a tool's run. The archive has what a broker,
its clients and some tools load. `quick_java` lets JVMs use it; without it they only take longer.
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from testing.places import cache_dir
from testing.process.java import QUICK_JVM, archive_of
from testing.process.kafka_peer import START_TIMEOUT_S, classpath, command, free_port, serves_metadata
from testing.process.tool_runner import ToolRunner
from testing.waiting import LONG_WAIT_S, WAIT_S, until

KAFKA_RELEASES: Final = ("3.9.2", "4.3.1")


def make(release: str) -> None:
    """Make the archive of a release, if it is missing. Raises RuntimeError, AssertionError or TimeoutExpired if that fails."""
    archive = archive_of(classpath(release))
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
        lists = _loaded(release, Path(folder))
        merged, fresh = Path(folder) / "classes", Path(folder) / "classes.jsa"
        merged.write_text("".join(dict.fromkeys(line for one in lists for line in one.read_text().splitlines(keepends=True))))
        options = ["-Xshare:dump", f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={fresh}"]
        dump = ["java", *QUICK_JVM, *options, "-cp", classpath(release)]
        run = subprocess.run(dump, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
        if run.returncode != 0 or not fresh.exists():
            raise RuntimeError(f"Kafka's classes cannot be archived: {run.stdout[-1000:]}{run.stderr[-1000:]}")
        fresh.replace(archive)


def _loaded(release: str, folder: Path) -> list[Path]:
    """Run a broker and tools, and return the files with the names of the classes that they loaded."""
    lists = [folder / "broker.classes", folder / "tools.classes"]
    port = free_port()
    java, *rest = command(folder / "data", port, release=release, is_short=True)
    broker = subprocess.Popen([java, _listing(lists[0]), *rest], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(partial(serves_metadata, "127.0.0.1", port), "the start of Apache Kafka", START_TIMEOUT_S)
        _run_tools(ToolRunner(release, folder, more_options=[_listing(lists[1])]), f"127.0.0.1:{port}")
        broker.terminate()
        broker.wait(WAIT_S)
    finally:
        broker.kill()
        broker.wait(WAIT_S)
    return lists


def _listing(names: Path) -> str:
    return f"-XX:DumpLoadedClassList={names}"


def _run_tools(tools: ToolRunner, bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    group = ("--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "1")
    try:
        for tool, *arguments in (
            ("topics", *at, "--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1"),
            ("console-producer", *at, "--topic", "t"),
            ("console-consumer", *at, *group),
            ("consumer-groups", *at, "--describe", "--group", "g"),
            ("configs", *at, "--describe", "--topic", "t"),
            ("transactions", *at, "list"),
        ):
            ran = tools.run(tool, *arguments, given="a record\n")
            if ran.code != 0:
                raise RuntimeError(f"kafka-{tool}: {ran.err[-1000:]}")
    finally:
        tools.close()


if __name__ == "__main__":
    for each in KAFKA_RELEASES:
        make(each)
