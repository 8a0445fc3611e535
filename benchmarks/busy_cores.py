"""Keeps cores busy as other work on a machine does: a process for each core that computes and rests by turns, from a seed.

python -m benchmarks.busy_cores [--share 50] [--seed 1] [--seconds 60]
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.peers import CORES

SPELL_S: Final = (0.001, 0.03)
"""How long a process computes at a time, drawn evenly."""

END_S: Final = 10


@contextmanager
def busy(share: int, seed: int = 1) -> Iterator[None]:
    """Keep each core busy for `share` percent of the time while the block runs; 0 starts nothing."""
    with ExitStack() as stack:
        for core in CORES if share else []:
            process = multiprocessing.get_context("spawn").Process(target=_compute, args=(core, share, seed), daemon=True)
            process.start()
            stack.callback(process.join, END_S)
            stack.callback(process.terminate)
        yield


def _compute(core: int, share: int, seed: int) -> None:
    os.sched_setaffinity(0, {core})
    draw = random.Random(seed * 1000 + core)
    while True:
        spell_s = draw.uniform(*SPELL_S)
        end = time.monotonic() + spell_s
        while time.monotonic() < end:
            sum(range(1000))
        time.sleep(spell_s * (100 - share) / share)
