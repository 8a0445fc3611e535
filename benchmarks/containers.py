"""Measures the container: time until it is healthy, size of the image, and memory at rest, beside Apache Kafka from its jars.

    python -m benchmarks.containers [--rounds 5] [--no-kafka]

Our image is that of this checkout (`make image`), and each round has a new container with a new volume. The time is from `run`
until the health check passes, and includes what the engine needs for both (`of this the engine`: the same for a container that
only sleeps). Not every machine can get an image of Kafka, so Kafka runs as a process of its own, without an engine, which is to
its advantage. The time is from formatting a new directory, as Kafka's image does at the first start, until the first response
to Metadata. The size is that of Kafka's jars alone, to which a Java runtime and a system must be added. Memory is resident
memory, five seconds later. All figures are medians. MB = 1e6 bytes.
"""

from __future__ import annotations

import statistics
import sys
import time
import zipfile
from pathlib import Path

from benchmarks import peers
from testing.containers import engine as engines
from testing.containers.containers import CHECK, running
from testing.containers.engine import Engine
from testing.containers.image import MB, build, sizes
from testing.process import kafka_peer, procstat

SETTLE_S = 5
TIMEOUT_S = 120


def ours(engine: Engine, image: str) -> tuple[float, float]:
    """Run one container; return the seconds until it is healthy, and its bytes of memory."""
    began = time.monotonic()
    with running(engine, image, "--publish", "127.0.0.1::9092") as container:
        while engine.call("exec", container.name, *CHECK).returncode:
            if time.monotonic() - began > TIMEOUT_S:
                sys.exit(f"Error: the container did not get healthy; its log:\n{container.log[-3000:]}")
        seconds = time.monotonic() - began
        time.sleep(SETTLE_S)
        pid = int(engine.inspect("container", container.name)["State"]["Pid"])
        return seconds, procstat.memory_bytes(pid)


def idle(engine: Engine, image: str) -> float:
    """Return the seconds until a container that does nothing runs and has executed a command."""
    began = time.monotonic()
    with running(engine, image, "--entrypoint", "sleep", command=["60"]) as container:
        container.execute("true")
        return time.monotonic() - began


def kafkas(folder: Path, number: int) -> tuple[float, float]:
    """Run Kafka, from a directory that is not formatted yet; return the seconds until it responds, and its bytes of memory."""
    began = time.monotonic()
    peer = peers.Peer(peers.KAFKA, folder / str(number))
    try:
        peer.start()
        seconds = time.monotonic() - began
        time.sleep(SETTLE_S)
        return seconds, procstat.memory_bytes(peer.pid)
    finally:
        peer.close()


def jar_bytes() -> tuple[int, int]:
    """Return the bytes of all jars of Kafka: as they are, which is compressed, and unpacked."""
    jars = [Path(jar) for jar in Path(kafka_peer.classpath().removesuffix("/*")).glob("*.jar")]
    unpacked = 0
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            unpacked += sum(entry.file_size for entry in archive.infolist())
    return sum(jar.stat().st_size for jar in jars), unpacked


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=5, help="containers to start, of which the median counts (default: %(default)s)"
    )
    options = peers.parsed(parser)
    rows: list[tuple[object, ...]] = []
    with peers.folder(options) as folder:
        for name in peers.names(options):
            if name == peers.OURS:
                engine = engines.find()
                if engine is None:
                    sys.exit("Error: neither a Docker daemon nor podman is there; `make containers` installs podman on Debian")
                image = build(engine)
                found = [ours(engine, image) for _ in range(options.rounds)]
                waiting: object = statistics.median(idle(engine, image) for _ in range(options.rounds))
                weights = sizes(engine, image)
            else:
                found = [kafkas(folder, number) for number in range(options.rounds)]
                waiting, weights = "none", jar_bytes()
            seconds, memory = (statistics.median(values) for values in zip(*found, strict=True))
            rows.append((name, seconds, waiting, memory / MB, *(weight / MB for weight in weights)))
    peers.table(
        f"Containers, medians of {options.rounds}",
        ["broker", "start to healthy, s", "of this the engine, s", "RSS at rest, MB", "to pull, MB", "unpacked, MB"],
        rows,
    )


if __name__ == "__main__":
    main()
