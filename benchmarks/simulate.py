"""Runs simulated histories of a cluster of three brokers, and reports the seeds in which something is wrong.

    python -m benchmarks.simulate --seeds 10000
    python -m benchmarks.simulate --seed 4711            this history alone, with all that was done in it

Each seed is one history, the same in each run: clients produce, read, commit and carry out transactions while brokers are killed,
lose their power, are paused, or lose links or the store. The exit code is the number of seeds that failed, at most 100.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from testing.simulation.cluster.history import FailedHistoryError, History


def failure_of(seed: int) -> str | None:
    """Return what is wrong in the history of a seed, or None."""
    try:
        History(seed).run()
    except FailedHistoryError as error:
        return str(error)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="how many histories")
    parser.add_argument("--seed", type=int, default=0, help="of the first one; each further one has the next")
    parser.add_argument("--processes", type=int, default=1, help="how many run at a time")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is a part of a history
        os.execve(
            sys.executable, [sys.executable, "-m", "benchmarks.simulate", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"}
        )
    seeds, began_s, failed = range(options.seed, options.seed + options.seeds), time.monotonic(), 0
    with ProcessPoolExecutor(options.processes) as pool:
        for count, (seed, failure) in enumerate(zip(seeds, pool.map(failure_of, seeds, chunksize=4), strict=True), 1):
            if failure is not None:
                failed += 1
                shown = failure if options.seeds == 1 else failure.splitlines()[0]
                print(f"{shown}\n    python -m benchmarks.simulate --seed {seed}", flush=True)
            if count % 500 == 0:
                print(f"{count} histories from seed {options.seed}: {failed} failed", flush=True)
    seconds = time.monotonic() - began_s
    print(f"{options.seeds} histories from seed {options.seed}: {failed} failed, {seconds / options.seeds:.2f} s for each")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
