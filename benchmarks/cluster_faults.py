"""Lets three brokers fail for a while, while Java's client, librdkafka, aiokafka and kafka-python work, and checks what they saw.

    python -m benchmarks.cluster_faults --seconds 600 --seed 7 [--cluster brokers|etcd|links]

The seed draws the faults: brokers are killed, two at a time too, or paused; with etcd, brokers are stopped, and the member of
etcd that leads is killed or paused; with links, which need root, each broker is in a network namespace, and links are cut. The
clients write numbers and transactions and read in groups. In the end nothing acknowledged may be lost, doubled or reordered, no
reader may have seen a part of a transaction, and all replicas must be equal, also for Kafka's kafka-replica-verification and
DumpLogSegments. The exit code is 1 if anything is wrong, and the folder with data and logs is kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from testing.faults import replicas
from testing.faults.clients import RELEASE
from testing.faults.clusters import Several, WithEtcd
from testing.faults.cuts import CUTS
from testing.faults.faults import EVERYWHERE, WITH_ETCD, Fault, drawn
from testing.faults.network import WithLinks
from testing.faults.run import kinds_of, run
from testing.process.tool_runner import ToolRunner

CLUSTERS: Final[dict[str, tuple[type[Several | WithEtcd], Sequence[Fault]]]] = {
    "brokers": (Several, EVERYWHERE),
    "etcd": (WithEtcd, WITH_ETCD),
    "links": (WithLinks, (*EVERYWHERE, *CUTS)),
}


def for_seconds(seconds: float, faults: Iterator[Fault]) -> Iterator[Fault]:
    """Yield the faults until the time is over, which begins with the first one."""
    end = None
    for fault in faults:
        end = end or time.monotonic() + seconds
        if time.monotonic() > end:
            break
        yield fault


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long faults happen (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (default: %(default)s)")
    parser.add_argument("--cluster", choices=CLUSTERS, default="brokers", help="--brokers 3, with etcd, or with links to cut")
    parser.add_argument("--rate", type=float, default=40, help="numbers of each client in a second (default: %(default)s)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cluster-faults-"))
    began = time.monotonic()

    def note(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    try:
        kind, faults = CLUSTERS[options.cluster]
        random = Random(options.seed)
        with kind(folder) as cluster:
            drawn_faults = for_seconds(options.seconds, drawn(faults, random))
            result = run(cluster, kinds_of(random), drawn_faults, random, rate=options.rate, note=note)
            replicas.verified(cluster, result.topics)
            cluster.stop()
            tools = ToolRunner(RELEASE, folder)
            try:
                dumps = replicas.dumped(cluster, tools.succeed)
            finally:
                tools.close()
    except AssertionError as error:
        print(f"{error}\n{folder} has the data and the logs")
        return 1
    result.problems += [f"replicas of {name} differ" for name, found in dumps.items() if found != [found[0]] * len(found)]
    print(result)
    if result.problems:
        print(f"{folder} has the data and the logs")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
