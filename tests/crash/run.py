"""Histories for a chosen time: `python -m tests.crash.run --seed 1 --minutes 10`.

The program reports every history that breaks a promise: its seed, its actions, where the machine stopped, and the last operations
of the disk. `--seeds 1` with that seed repeats it alone. The exit code is the number of kinds of failure, at most 100.
"""

from __future__ import annotations

import argparse
import re
import sys
import time

from tests.crash.histories import PLANS
from tests.crash.history import FailedHistoryError, History


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first history; each further one has the next")
    parser.add_argument("--minutes", type=float, default=1.0, help="when no further history is begun")
    parser.add_argument("--seeds", type=int, default=1 << 30, help="how many histories of each plan")
    parser.add_argument("--plans", default=",".join(PLANS), help="some of: %(default)s")
    parser.add_argument("--brief", action="store_true", help="only the first line of each failure")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    kinds: dict[str, list[str]] = {}
    histories = starts = 0
    seed = arguments.seed
    while time.monotonic() < until and seed < arguments.seed + arguments.seeds:
        for name in arguments.plans.split(","):
            history = History(seed, PLANS[name])
            try:
                history.run()
            except FailedHistoryError as error:
                first = str(error).splitlines()[0]
                kind = re.sub(r"\d+", "N", first.partition(": ")[2])[:90]
                if kind not in kinds and not arguments.brief:
                    print(f"plan {name}, {error}\n", flush=True)
                kinds.setdefault(kind, []).append(f"{name} {seed}")
            histories, starts = histories + 1, starts + history.checked
        seed += 1
    print(f"{histories} histories, {starts} starts after a crash; the next seed is {seed}")
    for kind, found in sorted(kinds.items(), key=lambda one: -len(one[1])):
        print(f"{len(found):4} {kind}   ({', '.join(found[:4])})")
    return min(len(kinds), 100)


if __name__ == "__main__":
    sys.exit(main())
