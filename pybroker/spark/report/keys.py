"""Counts how often each key occurs: exactly while the keys are not too many, then with a known error.

Keys are counted in Arrow tables, without an object for each. When there are more keys than a limit, the rarest are dropped, and
the count of the most frequent of these is added to `error`. So a remaining key has occurred at least `count` times and at most
`count + error` times. From then on, a HyperLogLog sketch of 2**14 registers estimates the number of different keys (standard
error 0.8 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

REGISTER_BITS: Final = 14
TOP: Final = 20
_REST_BITS: Final = 50
"""The bits of a 64-bit hash besides those that choose the register."""
_PRIME: Final = 0x9E3779B97F4A7C15 | 1
_INVERSE: Final = pow(_PRIME, -1, 1 << 64)
_PENDING_ROWS: Final = 1 << 18
_PENDING_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """The keys of a partition: a table of `key` and `count` as Arrow's IPC stream, and the sketch if some were dropped."""

    table: bytes
    error: int
    registers: bytes | None


@dataclass(frozen=True, slots=True)
class KeySummary:
    """The keys of a topic. If keys were dropped, `top_share` and `gini` are not known, and are None.

    Attributes:
        distinct: the number of different keys; an estimate unless `is_exact`.
        top: the most frequent keys and how often they occur at least; they occur at most `error` times more.
        top_share: the share of the records with keys whose key is among the most frequent 1 % of keys (rounded up).
        gini: 0 when all keys are equally frequent, near 1 when few keys have nearly all records.
    """

    distinct: int = 0
    is_exact: bool = True
    error: int = 0
    top: Sequence[tuple[bytes, int]] = ()
    top_share: float | None = None
    gini: float | None = None


@final
class KeyCounts:
    """A counter of the keys of a partition."""

    def __init__(self, keys_max: int, *, bytes_max: int) -> None:
        self._keys_max, self._bytes_max = keys_max, bytes_max
        self._tables: list[Any] = []
        self._rows = self._bytes = 0
        self._error = 0
        self._registers: Any = None

    def add(self, keys: Any) -> None:
        """Count these keys, a binary Arrow array without nulls."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(keys):
            return
        counted = pc.value_counts(keys)
        found = counted.field(0)
        if self._registers is not None:
            sketch(self._registers, found)
        self._push(pa.table({"key": found.cast(pa.large_binary()), "count": counted.field(1)}))

    def found(self) -> Found:
        """Return what was counted so far."""
        import pyarrow as pa

        self._join()
        out = pa.BufferOutputStream()
        table = self._tables[0] if self._tables else _empty()
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
        registers = None if self._registers is None else self._registers.tobytes()
        return Found(out.getvalue().to_pybytes(), self._error, registers)

    def _push(self, table: Any) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows > _PENDING_ROWS + self._keys_max or self._bytes > _PENDING_BYTES + self._bytes_max:
            self._join()

    def _join(self) -> None:
        if not self._tables:
            return
        table = joined(self._tables)
        if table.num_rows > self._keys_max or table.nbytes > self._bytes_max:
            table = self._pruned(table)
        self._tables, self._rows, self._bytes = [table], table.num_rows, table.nbytes

    def _pruned(self, table: Any) -> Any:
        """Keep the most frequent keys, up to half of the limit."""
        import numpy as np
        import pyarrow.compute as pc

        if self._registers is None:
            self._registers = np.zeros(1 << REGISTER_BITS, np.uint8)
            for chunk in table["key"].chunks:
                sketch(self._registers, chunk)
        table = table.take(pc.sort_indices(table, [("count", "descending")]))
        bytes_ = np.cumsum(pc.binary_length(table["key"]).to_numpy() + 16)
        kept = min(self._keys_max // 2, int(np.searchsorted(bytes_, self._bytes_max // 2, side="right")))
        if kept < table.num_rows:
            self._error += table["count"][kept].as_py()
        return table.slice(0, kept).combine_chunks()


def summarized(parts: Sequence[Found]) -> KeySummary:
    """Add up the keys of several partitions."""
    import numpy as np
    import pyarrow as pa

    tables = [pa.ipc.open_stream(part.table).read_all() for part in parts]
    if not sum(table.num_rows for table in tables) and not any(part.error for part in parts):
        return KeySummary()
    table = joined(tables).sort_by([("count", "descending"), ("key", "ascending")])
    top = list(zip(table["key"][:TOP].to_pylist(), table["count"][:TOP].to_pylist(), strict=True))
    counts = table["count"].to_numpy()
    error, distinct = sum(part.error for part in parts), len(counts)
    is_exact = all(part.registers is None for part in parts)
    if not is_exact:
        registers: Any = np.zeros(1 << REGISTER_BITS, np.uint8)
        for part, part_table in zip(parts, tables, strict=True):
            if part.registers is not None:
                registers = np.maximum(registers, np.frombuffer(part.registers, np.uint8))
            for chunk in part_table["key"].chunks:
                sketch(registers, chunk)
        distinct = max(distinct, estimated(registers))
    if not is_exact:
        return KeySummary(distinct, False, error, top)
    share = int(counts[: math.ceil(distinct / 100)].sum()) / int(counts.sum())
    return KeySummary(distinct, True, 0, top, share, gini(counts.tolist()))


def joined(tables: Sequence[Any]) -> Any:
    """Join tables into one in which each key occurs once."""
    import pyarrow as pa

    grouped = pa.concat_tables(tables).group_by("key").aggregate([("count", "sum")])
    return pa.table({"key": grouped["key"], "count": grouped["count_sum"]})


def gini(counts: Sequence[int]) -> float:
    """Return the Gini coefficient of the counts: 0 when all are equal, near 1 when one of them is nearly the whole."""
    number, whole = len(counts), sum(counts)
    weighted = sum(rank * count for rank, count in enumerate(sorted(counts), 1))
    return 2 * weighted / (number * whole) - (number + 1) / number if whole else 0.0


def sketch(registers: Any, keys: Any) -> None:
    """Add these keys, a binary Arrow array without nulls, to a sketch."""
    import numpy as np

    hashes = hashed(keys)
    rest = (hashes & np.uint64((1 << _REST_BITS) - 1)).astype(np.float64)  # fewer than 53 bits: exact
    ranks = (_REST_BITS + 1 - np.frexp(rest)[1]).astype(np.uint8)
    np.maximum.at(registers, (hashes >> np.uint64(_REST_BITS)).astype(np.int64), ranks)


def estimated(registers: Any) -> int:
    """Return about how many different keys a sketch has seen."""
    import numpy as np

    size = len(registers)
    raw = 0.7213 / (1 + 1.079 / size) * size * size / float(np.sum(np.ldexp(1.0, -registers.astype(np.int64))))
    zeros = int(np.count_nonzero(registers == 0))
    return round(size * math.log(size / zeros)) if raw <= 2.5 * size and zeros else round(raw)


def hashed(keys: Any) -> Any:
    """Return a 64-bit hash of each key, mixed from its length and a polynomial of its bytes.

    The polynomials of all keys are computed at once, from a running sum.
    """
    import numpy as np
    import pyarrow as pa

    keys = keys.cast(pa.large_binary())
    _, ends_buffer, data_buffer = keys.buffers()
    ends = np.frombuffer(ends_buffer, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    low, high = int(ends[0]), int(ends[-1])
    data = np.frombuffer(data_buffer, np.uint8)[low:high] if high > low else np.zeros(0, np.uint8)
    sums: Any = np.zeros(high - low + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * _powers(_PRIME, count=high - low), out=sums[1:], dtype=np.uint64)
    first, last = ends[:-1] - low, ends[1:] - low
    back = _powers(_INVERSE, count=high - low + 1)  # shifts the sum of a key from its place in the data to the beginning
    z = (sums[last] - sums[first]) * back[first] + (last - first).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _powers(base: int, *, count: int) -> Any:
    import numpy as np

    found: Any = np.full(count, base, np.uint64)
    found[:1] = 1
    return np.cumprod(found, dtype=np.uint64)


def _empty() -> Any:
    import pyarrow as pa

    return pa.table({"key": pa.array([], pa.large_binary()), "count": pa.array([], pa.int64())})
