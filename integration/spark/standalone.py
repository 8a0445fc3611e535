"""A real Spark cluster on the loopback: a master and workers, each a process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from testing.process.class_archive import jvm_options
from testing.waiting import WAIT_S

START_TIMEOUT_S = 120

_LOG_SETTINGS = """rootLogger.level = INFO
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


@contextlib.contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """Yield the URL of the master, once all workers (of one core each) have registered. Their work is in `folder`/workN."""
    from pyspark import __file__ as pyspark_file  # noqa: PLC0415

    from pybroker.spark.java import find_java  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "log4j2.properties"
    settings.write_text(_LOG_SETTINGS)
    home = Path(pyspark_file).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home()),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{jvm_options()} -Dlog4j2.configurationFile={settings.as_uri()}",
    }
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), *arguments]
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, process_group=0))

    master = "org.apache.spark.deploy.master.Master"
    try:
        start("master", master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(_free_port()))
        _wait_for(folder / "master.log", f"Starting Spark master at {url}", 1, processes)
        for number in range(workers):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(_free_port())]
            work = ["--work-dir", str(folder / f"work{number}")]
            start(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *options, *work, url)
        _wait_for(folder / "master.log", "Registering worker", workers, processes)
        yield url
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(WAIT_S)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(log: Path, text: str, times: int, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while log.read_text(errors="replace").count(text) < times:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        assert all(process.poll() is None for process in processes), log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)
