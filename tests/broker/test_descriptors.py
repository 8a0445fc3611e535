"""The shares of file descriptors."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from pybroker.broker import descriptors

STATUS = Path("/proc/self/status")


@pytest.mark.parametrize("limit", [3, 64, 100, 256, 1_024, 4_096, 20_000, 1 << 20, resource.RLIM_INFINITY])
def test_the_shares_leave_enough_for_everything_else(limit: int) -> None:
    shares = descriptors.shares(limit)
    assert shares.data_files >= 1
    assert shares.connections >= 1
    left = shares.limit - shares.data_files - shares.connections
    assert left >= 64 or limit < 66
    assert limit < 256 or shares.connections >= limit * 3 // 8 or limit == resource.RLIM_INFINITY


def test_the_table_of_the_module_is_true() -> None:
    rows = [
        (descriptors.shares(limit).data_files, descriptors.shares(limit).connections) for limit in (256, 1_024, 4_096, 1 << 20)
    ]
    assert rows == [(96, 96), (448, 448), (1_792, 1_792), (523_776, 523_776)]


@pytest.mark.skipif(not STATUS.exists(), reason="the system has no such file")
def test_the_table_of_descriptors_is_made_at_once() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        descriptors.allow_many()
        (size,) = [int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("FDSize:")]
        assert size >= min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], descriptors.TABLE_MAX)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
