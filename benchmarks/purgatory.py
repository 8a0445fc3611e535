"""Measures the purgatory under load: the timing wheel beside `loop.call_later` and, with --kafka, Kafka's own.

    python -m benchmarks.purgatory [--num 1000000] [--rates 40000,80000,...] [--shapes low,high] [--uvloop] [--kafka] [--json
    FILE]

This is the benchmark of the purgatory's design (2015), as `kafka.TestPurgatoryPerformance` has it. Requests that hold 100 bytes
arrive with exponential intervals, are watched under three keys, and time out after 200 ms unless they complete before. The time
to complete is log-normal, with median and 75th percentile 20 and 60 ms (low timeout rate) or 200 and 400 ms (high). No event on
a key completes a request, so the purge must remove its entries in the watcher lists.

Every line of the table is a process of its own, pinned to one core, that does everything: it makes the arrivals, completes,
expires and purges. `reached` is the rate at which the process enqueued requests; where it is below the asked rate, the core was
saturated. CPU seconds are those of the whole process, for all requests until the last completed. RSS is from before the first
request to after the last, and the most in between. Both implementations run the same purgatory and differ in the timer only.
Compare lines of one run only, because machines differ.

--kafka adds lines for Kafka 3.9.2. It needs Java 17 and Maven, and brings broker and test jar from Maven Central once, into the
cache folder (`kafka_peer`). The JVM may use all cores: compare CPU seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.clock import SystemClock
from pybroker.purgatory.purgatory import DelayedOperation, Purgatory
from pybroker.purgatory.timer import OperationTimer, TimerTask
from testing.process import kafka_peer

SHAPES = {"low": (20, 60), "high": (200, 400)}  # median and 75th percentile in ms
QUANTILE_75 = 0.674490  # of the standard normal distribution
TIMEOUT_MS = 200
PAYLOAD_BYTES = 100
KEYS = ("key-17", "key-42", "key-83")
RING = 1024  # ms; longer than the timeout, and than the driver ever falls behind
BATCH = 200  # requests between two looks at the clock
RATES = "40000,80000,105000,150000,200000,300000"
COLUMNS = ("implementation", "shape", "asked", "reached", "timed out", "CPU s", "us each", "RSS MB", "peak", "after")
RELEASE = kafka_peer.RELEASE
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Request(DelayedOperation):
    """A request as Kafka's FakeOperation: it completes when its time to complete is over."""

    __slots__ = ("completes_at_ms", "payload", "tally")

    def __init__(self, completes_at_ms: int, tally: list[int]) -> None:
        super().__init__()
        self.completes_at_ms = completes_at_ms
        self.payload = bytes(PAYLOAD_BYTES)
        self.tally = tally

    def try_complete(self) -> bool:
        return time.monotonic_ns() // 1_000_000 >= self.completes_at_ms and self.force_complete()

    def on_complete(self) -> None:
        self.tally[0] += 1

    def on_expiration(self) -> None:
        self.tally[1] += 1


class HandleRequest(Request):
    """A request with a handle of the event loop in place of the wheel's links."""

    __slots__ = ("handle",)

    def __init__(self, completes_at_ms: int, tally: list[int]) -> None:
        super().__init__(completes_at_ms, tally)
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> bool:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None
        return True


class CallLaterTimer:
    slice_s = math.inf

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def add(self, task: TimerTask, delay_ms: int) -> None:
        assert isinstance(task, HandleRequest)
        task.handle = self.loop.call_later(delay_ms / 1000, task.expire)

    def soon(self, work: Callable[[], None]) -> None:
        self.loop.call_soon(work)


def samples(num: int, rate: float, shape: str) -> tuple[array[int], array[int]]:
    """Return the arrival times in ms from the start, and the times to complete in ms."""
    generator = random.Random(2015)
    median, percentile_75 = SHAPES[shape]
    mu = math.log(median)
    sigma = (math.log(percentile_75) - mu) / QUANTILE_75
    arrivals, latencies = array("q"), array("q")
    at_ms = 0.0
    for _ in range(num):
        at_ms += generator.expovariate(rate / 1000)
        arrivals.append(int(at_ms))
        latencies.append(int(min(generator.lognormvariate(mu, sigma), 1e9)))
    return arrivals, latencies


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def drive(implementation: str, num: int, rate: float, shape: str) -> dict[str, Any]:
    arrivals, latencies = samples(num, rate, shape)
    loop = asyncio.get_running_loop()
    tally = [0, 0]
    if implementation == "wheel":
        timer = OperationTimer(SystemClock(), lambda when_ms, callback: loop.call_at(when_ms / 1000, callback))
        purgatory, make = Purgatory("wheel", timer), Request
    else:
        purgatory, make = Purgatory("call_later", CallLaterTimer(loop)), HandleRequest
    rss_start = rss_peak = rss_bytes()
    due: list[list[Request]] = [[] for _ in range(RING)]
    start_cpu, start_ms = time.process_time(), time.monotonic_ns() // 1_000_000
    done_ms = sampled_ms = start_ms
    enqueued = 0
    while tally[0] < num:
        now_ms = time.monotonic_ns() // 1_000_000
        for at_ms in range(done_ms + 1, now_ms + 1):
            ready = due[at_ms % RING]
            for request in ready:
                request.force_complete()
            ready.clear()
        done_ms = now_ms
        elapsed_ms, last = now_ms - start_ms, min(enqueued + BATCH, num)
        while enqueued < last and arrivals[enqueued] <= elapsed_ms:
            latency_ms = latencies[enqueued]
            request = make(now_ms + latency_ms, tally)
            if latency_ms < TIMEOUT_MS:
                due[(now_ms + max(latency_ms, 1)) % RING].append(request)
            purgatory.try_complete_else_watch(request, KEYS, TIMEOUT_MS)
            enqueued += 1
            if enqueued == num:
                end_ms = time.monotonic_ns() // 1_000_000
        if now_ms - sampled_ms >= 100:
            sampled_ms, rss_peak = now_ms, max(rss_peak, rss_bytes())
        await asyncio.sleep(0 if enqueued == last != num else 0.0005)
    cpu_s = time.process_time() - start_cpu
    assert purgatory.delayed == 0
    return {
        "implementation": implementation,
        "shape": shape,
        "asked": num * 1000 / max(1, arrivals[-1]),
        "reached": num * 1000 / (end_ms - start_ms),
        "timed out": tally[1] / num,
        "CPU s": cpu_s,
        "us each": cpu_s / num * 1e6,
        "RSS MB": rss_start / 1e6,
        "peak": rss_peak / 1e6,
        "after": rss_bytes() / 1e6,
    }


def one(arguments: argparse.Namespace) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work = drive(arguments.one, arguments.num, float(arguments.rates), arguments.shapes)
    if arguments.uvloop:
        import uvloop  # noqa: PLC0415  only when asked for

        print(json.dumps(uvloop.run(work)))
    else:
        print(json.dumps(asyncio.run(work)))


def in_a_process(arguments: argparse.Namespace, implementation: str, shape: str, rate: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.purgatory", "--one", implementation, "--num", str(arguments.num)]
    command += ["--rates", str(rate), "--shapes", shape, *(["--uvloop"] if arguments.uvloop else [])]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def kafka_classpath() -> str:
    """Return the broker's class path and, in front, the test jar with the benchmark."""
    broker = kafka_peer.classpath(RELEASE)
    jar = Path(broker).parent.parent / f"kafka_2.13-{RELEASE}-test.jar"
    if not jar.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise RuntimeError("Kafka's benchmark is brought by Maven, which is not installed")
        with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
            artifact = f"org.apache.kafka:kafka_2.13:{RELEASE}:jar:test"
            command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(command, cwd=folder, check=True)
            (Path(folder) / jar.name).replace(jar)
    return f"{jar}:{broker}"


def of_kafka(classpath: str, num: int, shape: str, rate: int) -> dict[str, Any]:
    """Run Kafka's benchmark once; its last line has elapsed ms, asked rate, reached rate and the process's CPU ms."""
    median, percentile_75 = SHAPES[shape]
    with tempfile.TemporaryDirectory() as folder:
        quiet = Path(folder) / "log4j.properties"
        quiet.write_text("log4j.rootLogger=OFF\n")
        command = ["java", "-Xmx200m", f"-Dlog4j.configuration=file:{quiet}", "-cp", classpath, "kafka.TestPurgatoryPerformance"]
        command += ["--num", str(num), "--rate", str(rate), "--timeout", str(TIMEOUT_MS), "--size", str(PAYLOAD_BYTES)]
        command += ["--pct50", str(median), "--pct75", str(percentile_75)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
    fields = next(line for line in reversed(run.stdout.splitlines()) if line and not line.startswith("#")).split()
    cpu_s = int(fields[3]) / 1000
    numbers = {"asked": float(fields[1]), "reached": float(fields[2]), "CPU s": cpu_s, "us each": cpu_s / num * 1e6}
    return {"implementation": f"kafka {RELEASE}", "shape": shape, **numbers}


def row(result: dict[str, Any]) -> str:
    def cell(column: str) -> str:
        value = result.get(column)
        if value is None:
            return "-"
        if column == "timed out":
            return f"{value:.1%}"
        if isinstance(value, float):
            return f"{value:,.0f}" if value >= 1000 or column in ("RSS MB", "peak", "after") else f"{value:.2f}"
        return str(value)

    return "".join(f"{cell(column):>{max(len(column), 9) + 2}}" for column in COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num", type=int, default=1_000_000, help="requests of each run")
    parser.add_argument("--rates", default=RATES, help="requests per second, separated by commas")
    parser.add_argument("--shapes", default="low,high", help="rates of timeouts, separated by commas (default: %(default)s)")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop instead of plain asyncio")
    parser.add_argument("--kafka", action="store_true", help="measure Kafka's own purgatory too")
    parser.add_argument("--json", type=Path, help="append one line for each run to this file")
    parser.add_argument("--one", choices=("wheel", "call_later"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments)
        return
    if arguments.kafka:
        kafka_peer.require(RELEASE)
    classpath = kafka_classpath() if arguments.kafka else None
    loop = "uvloop" if arguments.uvloop else "asyncio"
    print(f"{arguments.num:,} requests each, {loop}, CPython {sys.version.split()[0]}, one core of {os.cpu_count()}")
    print("".join(f"{column:>{max(len(column), 9) + 2}}" for column in COLUMNS))
    for shape in arguments.shapes.split(","):
        for rate in map(int, arguments.rates.split(",")):
            for implementation in ("wheel", "call_later", *(["kafka"] if classpath else [])):
                if classpath and implementation == "kafka":
                    result = of_kafka(classpath, arguments.num, shape, rate)
                else:
                    result = in_a_process(arguments, implementation, shape, rate)
                print(row(result), flush=True)
                if arguments.json:
                    with arguments.json.open("a") as file:
                        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
