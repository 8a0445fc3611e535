"""Attacks a broker in each state of a connection, and fails if it was harmed, or has revealed or changed anything.

    python -m benchmarks.hostile_strangers [--frames 200000] [--minutes 60] [--seed 1] [--only "in SASL"]

First 1,000 handshakes of TLS begin at once, and stay there. Then come bad frames in each state: before TLS and in its
handshake at an SSL listener; before, in and after the login at a SASL listener, where the user may do nothing. Beside each
attack an honest client logs in, writes, and does handshakes. These are findings: a turn of the loop above 50 ms on a core, an
error in the log, a descriptor left, memory that grows by 24 MiB, a long wait of the honest client, a name or a record in any
response, and a change of topics, records, settings, groups, ACLs or users.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from pybroker.sharing.turns.watchdog import FAIL, SWITCH
from testing.hostile.campaign import HOLD_MS_MAX, STATES, run, run_slow
from testing.hostile.target import Target

FRAMES: Final = 200_000
SLOW: Final = "slow TLS"
HANDSHAKES: Final = 1_000
HOLD_S: Final = 20
FAULTS_SHOWN: Final = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--minutes", type=float, default=60, help="the limit of each state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--handshakes", type=int, default=HANDSHAKES, help="how many are slow, at once")
    parser.add_argument("--only", choices=[*STATES, SLOW])
    options = parser.parse_args()
    os.environ.setdefault(SWITCH, f"{FAIL}:{HOLD_MS_MAX}")
    has_failed = False
    print(f"{'state':12} {'frames':>8} {'frames/s':>8} {'honest':>7} {'longest':>8} {'memory':>9}")
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        try:
            for state in [options.only] if options.only else [SLOW, *STATES]:
                if state == SLOW:
                    one = run_slow(target, options.handshakes, HOLD_S)
                else:
                    one = run(target, state, options.frames, options.seed, limit_s=options.minutes * 60)
                print(
                    f"{one.state:12} {one.frames:8} {one.frames / one.seconds:8.0f} {one.served:7} {one.longest_s:6.2f} s"
                    f" {one.growth_bytes / 1e6:+6.1f} MB",
                    flush=True,
                )
                for fault in one.faults[:FAULTS_SHOWN]:
                    print(f"  {fault}", flush=True)
                for what, hold_ms in one.holds.items():
                    print(f"  {what} held the loop for {hold_ms:.1f} ms on a core", flush=True)
                has_failed |= bool(one.faults or one.holds)
        finally:
            target.close()
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
