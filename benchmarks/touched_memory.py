"""Touches free memory before a round, so that a virtual machine has it.

A virtual machine may give free memory back to its host. The first use of such a page then takes several times as long as a copy
into it, in the process that uses it. A broker that appends a gigabyte to the page cache would pay that, or not, by what
the machine did a minute before: on one machine, appends of 200 kB took 0.9 or 3.3 CPU-s per GB.
"""

from __future__ import annotations

import argparse
import mmap


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--touch`, whose GB a benchmark gives to `touch` before each round."""
    parser.add_argument("--touch", type=float, default=4, help="GB of free memory to touch before a round (default: %(default)s)")


def touch(gigabytes: float) -> None:
    """Use this much free memory, and give it back. 4 GB take a second if the machine has them, and eight if not."""
    if gigabytes:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, int(gigabytes * 1e9), flags=flags).close()
