"""Every state in which a loss of power may leave the names of a disk, instead of some states at random."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

from testing.simulation.disk import SimulatedDisk

COUNT_MAX = 64


class _Chosen(Random):
    """A source of chance for `SimulatedDisk.crash` that keeps the changes of names whose bit is set, and all bytes of files."""

    def __init__(self, bits: int) -> None:
        super().__init__(0)
        self._bits = bits
        self.count = 0

    def randrange(self, *_: object) -> int:
        return 3  # any of them

    def choice(self, options: object) -> float:  # type: ignore[override]  # only shares are drawn
        return 0.5

    def random(self) -> float:
        self.count += 1
        return 0.0 if self._bits >> (self.count - 1) & 1 else 1.0


def crashed(disk: SimulatedDisk, seed: int = 0) -> Iterator[SimulatedDisk]:
    """Yield copies of the disk as losses of power would leave it: all, or COUNT_MAX drawn by `seed` where there are more.

    A change of names is lost if it needs a change that is lost.
    """
    one = disk.fork()
    drawn = _Chosen(-1)
    one.crash(drawn)
    yield one
    ways: Iterator[int] = iter(range(2**drawn.count - 1))
    if drawn.count > COUNT_MAX.bit_length():
        seeded = Random(seed)
        ways = itertools.chain([0], (seeded.getrandbits(drawn.count) for _ in range(COUNT_MAX)))
    for bits in ways:
        one = disk.fork()
        one.crash(_Chosen(bits))
        yield one
