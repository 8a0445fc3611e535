"""Runs the brokers of a comparison, ours and Apache Kafka, started alike, pinned alike and measured alike; prints the table.

A broker gets the first core and the load generators get the others (`pin_client`), so that neither pays for the other's cache
misses; on a machine with one core nothing is pinned. Both brokers run through the whole benchmark, and one is idle while the
benchmark measures the other.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import build
from testing.process import kafka_peer, procstat

OURS, KAFKA, BEFORE = "pybroker", "Apache Kafka", "pybroker before"
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60
CORES = sorted(os.sched_getaffinity(0))


def pin_client() -> None:
    """Keep the calling process, a load generator, off the broker's core."""
    if len(CORES) > 1:
        os.sched_setaffinity(0, set(CORES[1:]))


class Peer:
    """A broker process with a data directory of its own under `folder`. Started by `start`, ended by `close`."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        heap: str = "1G",
        data_limit_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
        checkout: Path | None = None,
    ) -> None:
        """`environment` replaces that of the benchmark. `checkout` is where the broker's code is, if not here."""
        self.name = name
        self._environment, self._checkout = environment, checkout
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}
        self.start_s = 0.0
        self.log = folder / "broker.log"
        self._data, self._heap, self._data_limit_bytes = folder / "data", heap, data_limit_bytes
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return procstat.is_alive(self.pid)

    def start(self, overrides: Mapping[str, str] | None = None, listeners: Mapping[str, str] | None = None) -> None:
        """Start, and set `start_s` to the seconds until the first response to Metadata; formatting precedes them.

        The broker has a PLAINTEXT listener, `bootstrap`, and those of `listeners`, names with their protocols, at `addresses`.
        """
        port = kafka_peer.free_port()
        settings = {**(overrides or {}), **(self._listeners(port, listeners) if listeners else {})}
        lines = [f"{key}={value}" for key, value in settings.items()]
        self._data.mkdir(parents=True, exist_ok=True)
        command = self._command(port, lines)
        began = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=self._environment,
                cwd=self._checkout,  # -m looks there first
                stdout=log,
                stderr=log,
                preexec_fn=self._prepare,  # noqa: PLW1509
                process_group=0,
            )
        while not kafka_peer.serves_metadata("127.0.0.1", port):
            if self._process.poll() is not None or time.monotonic() - began > START_TIMEOUT_S:
                self.close()
                raise RuntimeError(f"{self.name} did not start:\n{self.last_output()}")
            time.sleep(0.005)
        self.start_s = time.monotonic() - began
        self.bootstrap = f"127.0.0.1:{port}"

    def last_output(self) -> str:
        """Return the end of the broker's log."""
        return self.log.read_text(errors="replace")[-3000:]

    def close(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listeners(self, port: int, protocols: Mapping[str, str]) -> dict[str, str]:
        """Choose the addresses, and return the settings of all listeners."""
        self.addresses = {name: f"127.0.0.1:{kafka_peer.free_port()}" for name in protocols}
        addresses = {"PLAINTEXT": f"127.0.0.1:{port}", **self.addresses}
        listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
        names = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **protocols}
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in names.items()),
        }
        if self.name == KAFKA:
            controller = f"127.0.0.1:{kafka_peer.free_port()}"
            settings["listeners"] += f",CONTROLLER://{controller}"
            settings["controller.quorum.voters"] = f"1@{controller}"
        return settings

    def _command(self, port: int, overrides: Sequence[str]) -> list[str]:
        if self.name == KAFKA:
            return kafka_peer.command(self._data, port, overrides, heap=self._heap)
        command = [sys.executable, "-m", "pybroker", "start", "--port", str(port), "--data-dir", str(self._data)]
        return [*command, *(part for line in overrides for part in ("--override", line))]

    def _prepare(self) -> None:
        if len(CORES) > 1:
            os.sched_setaffinity(0, {CORES[0]})
        if self._data_limit_bytes is not None and self.name != KAFKA:  # a JVM has its heap for that
            resource.setrlimit(resource.RLIMIT_DATA, (self._data_limit_bytes, self._data_limit_bytes))


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--no-kafka", dest="kafka", action="store_false", help="measure pybroker alone, which needs neither Java nor Maven"
    )
    parser.add_argument("--no-pybroker", dest="ours", action="store_false", help="measure Apache Kafka alone")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    return parser


def add_before(parser: argparse.ArgumentParser) -> None:
    """Add the option of benchmarks that can measure another version of pybroker in turn with this one."""
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="measure the pybroker of another checkout, too, whose native parts were built in place there",
    )


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options, once it is sure that what they ask for can run; print what the benchmark will measure."""
    options = parser.parse_args()
    if not (options.ours or options.kafka):
        parser.error("--no-pybroker and --no-kafka leave nothing to measure")
    if options.ours:
        build.announce()
    if options.kafka:
        kafka_peer.require()
        print(f"Apache Kafka {kafka_peer.RELEASE}", flush=True)
    return options


def names(options: argparse.Namespace) -> list[str]:
    return [name for name, wanted in ((OURS, options.ours), (KAFKA, options.kafka)) if wanted]


@contextmanager
def folder(options: argparse.Namespace) -> Iterator[Path]:
    """Make a folder for everything that the brokers write, and remove it at the end."""
    path = Path(tempfile.mkdtemp(prefix="benchmark-", dir=options.data))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def started(
    options: argparse.Namespace,
    overrides: Mapping[str, str] | None = None,
    *,
    heap: str = "1G",
    data_limit_bytes: int | None = None,
) -> Iterator[list[Peer]]:
    """Yield the brokers that the options ask for, running."""
    with folder(options) as path:
        peers = [Peer(name, path / name.split()[-1], heap=heap, data_limit_bytes=data_limit_bytes) for name in names(options)]
        if getattr(options, "before", None):
            peers.append(Peer(BEFORE, path / "before", data_limit_bytes=data_limit_bytes, checkout=options.before.resolve()))
        try:
            for peer in peers:
                peer.start(overrides)
            yield peers
        finally:
            for peer in peers:
                peer.close()


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print the rows as a Markdown table; floats have three significant digits."""
    lines = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [list(header), *lines]) for column in range(len(header))]
    print(f"\n{title}\n")
    for number, line in enumerate([list(header), *lines]):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.flush()


def row(cells: Iterable[object]) -> None:
    """Print one row as it will stand in the table, so that a long run shows its figures while it runs."""
    print(f"| {' | '.join(map(_text, cells))} |", flush=True)


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
