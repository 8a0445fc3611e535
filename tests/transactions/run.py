"""Stories for a chosen time: `python -m tests.transactions.run --seed 1 --minutes 10`.

Kills and losses of power take turns. The program reports every story with a problem by its seed, what happened to the broker, and
the problems. `--seeds 1` with that seed repeats it alone. The exit code is the number of such stories, at most 100.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.transactions.story import PLANS, Story


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the first story; each further one has the next")
    parser.add_argument("--minutes", type=float, default=1.0, help="when no further story is begun")
    parser.add_argument("--seeds", type=int, default=1 << 30, help="how many stories of each plan")
    parser.add_argument("--plans", default=",".join(PLANS), help="some of: %(default)s")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    stories = transactions = failed = 0
    seed = arguments.seed
    while time.monotonic() < until and seed < arguments.seed + arguments.seeds:
        for name in arguments.plans.split(","):
            story = Story(seed, PLANS[name])
            found = story.run()
            stories, transactions = stories + 1, transactions + len(story.history.transactions)
            if found:
                failed += 1
                print(f"plan {name}, seed {seed}:", *story.notes, *found[:10], sep="\n    ", flush=True)
        seed += 1
    print(f"{stories} stories of {transactions} transactions, {failed} with problems; the next seed is {seed}")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
