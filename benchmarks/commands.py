"""Measures what a run of our kafka-*.sh commands costs: CPU of the whole process, in ms, the median of some runs over one broker.

    python -m benchmarks.commands [--runs 21] [--kafka]

`--kafka` runs Kafka's own tool of the same name beside each (which needs Java, and Maven the first time). The benchmark prints
a line of JSON for each command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pybroker
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import RELEASE, classpath, logging_options
from testing.process.tool_runner import TOOLS

ENTRY = Path(pybroker.__file__).parent / "tools" / "__main__.py"
KAFKA_RUNS = 3
RUNS: tuple[tuple[str, ...], ...] = (
    ("kafka-broker-api-versions",),
    ("kafka-topics", "--list"),
    ("kafka-topics", "--describe", "--topic", "bench"),
    ("kafka-topics", "--create", "--if-not-exists", "--topic", "bench"),
    ("kafka-configs", "--describe", "--topic", "bench"),
    ("kafka-consumer-groups", "--list"),
    ("kafka-console-consumer", "--topic", "bench", "--partition", "0", "--offset", "earliest", "--max-messages", "1"),
)


def cpu_ms(command: list[str], *, given: bytes = b"") -> float:
    """Return the user and system time of a run with its children. Raises RuntimeError when the run fails."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(given)
    process.stdin.close()
    errors = process.stderr.read()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {errors.decode(errors='replace')}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def median_ms(command: list[str], runs: int) -> float:
    """Return the median of `runs` runs, after one that is not counted, because it may have to compile."""
    cpu_ms(command)
    return round(statistics.median(cpu_ms(command) for _ in range(runs)), 1)


def main() -> None:
    """Start a broker, and run every command some times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=21, help="runs of each command, of which the median counts (default: %(default)s)"
    )
    parser.add_argument("--kafka", action="store_true", help="run Kafka's own tools beside them")
    options = parser.parse_args()
    ours = [sys.executable, "-I", "-S", str(ENTRY)]
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "broker")
        broker.start()
        try:
            at = ["--bootstrap-server", broker.bootstrap]
            cpu_ms([*ours, "kafka-console-producer", "--topic", "bench", *at], given=b"a record\n")
            print(
                json.dumps(
                    {"command": "an interpreter that does nothing", "cpu_ms": median_ms([*ours[:3], "-c", ""], options.runs)}
                )
            )
            java = ["java", *logging_options(Path(folder), Path(folder) / "tools.log"), "-Xmx256m", "-cp"]
            for name, *arguments in RUNS:
                line = {
                    "command": " ".join((name, *arguments)),
                    "cpu_ms": median_ms([*ours, name, *arguments, *at], options.runs),
                }
                if options.kafka:
                    tool = [*java, classpath(RELEASE), TOOLS[name.removeprefix("kafka-")]]
                    line["kafka_cpu_ms"] = median_ms([*tool, *arguments, *at], KAFKA_RUNS)
                print(json.dumps(line), flush=True)
        finally:
            broker.close()


if __name__ == "__main__":
    main()
