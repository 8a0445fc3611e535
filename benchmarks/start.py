"""Measures the time from start to the first response, and memory at rest.

    python -m benchmarks.start [--rounds 5] [--no-kafka]

Each round starts the process on a data directory that is already formatted and has been stopped cleanly, asks for Metadata
every 5 ms until there is a response, waits until the process is quiet, reads its memory, and stops it. The figures are medians.
MB = 1e6 bytes. Our bytecode is there before, as pip leaves it where it installs, or else each start might compile it again (and
does where PYTHONDONTWRITEBYTECODE is set).
"""

from __future__ import annotations

import compileall
import statistics
import time
from pathlib import Path

import pybroker
from benchmarks import peers
from testing.process import procstat

SETTLE_S = 5


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="starts, of which the median counts (default: %(default)s)")
    options = peers.parsed(parser)
    compileall.compile_dir(Path(pybroker.__file__).parent, quiet=1)
    rows = []
    with peers.folder(options) as path:
        for name in peers.names(options):
            seconds, cpu, resident, anonymous = [], [], [], []
            for number in range(options.rounds + 1):
                peer = peers.Peer(name, path / name.split()[-1])
                peer.start()
                cpu_at_response = procstat.cpu_s(peer.pid)
                try:
                    if number == 0:
                        continue  # formats, and warms the page cache
                    time.sleep(SETTLE_S)
                    seconds.append(peer.start_s)
                    cpu.append(cpu_at_response)
                    resident.append(procstat.memory_bytes(peer.pid) / 1e6)
                    anonymous.append(procstat.memory_bytes(peer.pid, "RssAnon") / 1e6)
                finally:
                    peer.close()
            rows.append((name, *map(statistics.median, (seconds, cpu, resident, anonymous))))
    peers.table(
        f"Start, medians of {options.rounds}",
        ["broker", "to first Metadata, s", "CPU-s until then", "RSS idle, MB", "RssAnon idle, MB"],
        rows,
    )


if __name__ == "__main__":
    main()
