"""Measures how long the requests of the page keep other clients waiting, with many partitions and groups.

    python -m benchmarks.page [--partitions 10000] [--groups 1000] [--rounds 3]

A broker gets topics of 100 partitions and groups that have committed offsets. Then each request of the page is sent in turn,
while a probe in another process sends ApiVersions every 5 ms. The figures: how long the response took, and its size; the longest
time that a probe waited from when it was due, and the same without any request of the page; the CPU of the broker. All are
medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from benchmarks.probe import Probe
from pybroker.admin.client import Access, request
from testing.process import procstat
from testing.process.broker import BrokerProcess
from testing.wire import raw

INTERVAL_S: Final = 0.005
ALONE_S: Final = 0.5
PARTITIONS_OF_A_TOPIC: Final = 100
RESPONSE_S: Final = 300.0
VIEWS: Final = (
    "/v1/cluster", "/v1/topics", "/v1/groups?short=true", "/v1/groups", "/v1/topics/t0", "/v1/topics/t0/records", "/v1/groups/g0",
    "/metrics",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--groups", type=int, default=1_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        broker = BrokerProcess(Path(folder), {"pybroker.admin.listener": "http://127.0.0.1:0"})
        broker.start()
        try:
            fill(broker, arguments.partitions, arguments.groups)
            print(f"{'request':<26}{'took, ms':>10}{'kB':>9}{'others waited, ms':>19}{'CPU, ms':>9}")
            for path in (None, *VIEWS):
                print_row(path, [measured(broker, path) for _ in range(arguments.rounds)])
        finally:
            broker.close()


def fill(broker: BrokerProcess, partitions: int, groups: int) -> None:
    """Make the topics and the groups."""

    def send(path: str, body: object) -> None:
        request(broker.admin_url, "POST", path, body, access=Access(), response_s=RESPONSE_S)

    for number in range(max(1, partitions // PARTITIONS_OF_A_TOPIC)):
        send("/v1/topics", {"name": f"t{number}", "partitions": PARTITIONS_OF_A_TOPIC})
    send("/v1/topics/t0/records", {"records": [{"value": "x" * 1_000}] * 900})
    for number in range(groups):
        send(f"/v1/groups/g{number}/offsets", {"topic": "t0", "to": "earliest"})


def measured(broker: BrokerProcess, path: str | None) -> tuple[float, int, float, float]:
    """Return the milliseconds of a response, its bytes, the longest wait of a probe in ms, and the broker's CPU in ms."""
    with Probe(broker.bootstrap, {"probe": raw.request(raw.API_VERSIONS, 0, b"")}, INTERVAL_S) as probe:
        time.sleep(ALONE_S)
        began, cpu_s = time.monotonic(), procstat.cpu_s(broker.pid)
        size = 0
        if path is not None:
            with urlopen(f"{broker.admin_url}{path}", timeout=RESPONSE_S) as response:
                size = len(response.read())
        else:
            time.sleep(1)
        ended = time.monotonic()
        cpu_s = procstat.cpu_s(broker.pid) - cpu_s
        time.sleep(ALONE_S)
    waits = probe.between("probe", began, ended + INTERVAL_S)
    return 1_000 * (ended - began), size, 1_000 * max(waits), 1_000 * cpu_s


def print_row(path: str | None, rounds: list[tuple[float, int, float, float]]) -> None:
    took, sizes, waits, cpu = zip(*rounds, strict=True)
    print(
        f"{path or 'none, for a second':<26}{statistics.median(took):>10.1f}{sizes[0] / 1_000:>9.1f}"
        f"{statistics.median(waits):>19.1f}{statistics.median(cpu):>9.1f}"
    )


if __name__ == "__main__":
    main()
