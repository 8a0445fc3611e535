"""DeleteRecords in every version: the new start of a log, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.error_codes import ErrorCode
from tests.api.administration import cut, started, versions


@pytest.mark.parametrize("version", versions(21))
async def test_records_are_deleted(tmp_path: Path, version: int) -> None:
    whole = await started(tmp_path)
    assert await cut(whole, version, "t", p0=3, p1=-1, p7=0) == {
        0: (3, 0),
        1: (0, 0),
        7: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert await cut(whole, version, "t", p0=1) == {0: (3, 0)}
    assert await cut(whole, version, "t", p0=6) == {0: (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}
    assert await cut(whole, version, "t", p0=-2) == {0: (-1, ErrorCode.OFFSET_OUT_OF_RANGE)}
    assert await cut(whole, version, "t", p0=-1) == {0: (5, 0)}
    assert await cut(whole, version, "nope", p0=0) == {0: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


async def test_records_of_compacted_and_internal_topics_stay(tmp_path: Path) -> None:
    whole = await started(tmp_path, cleanup_policy="compact")
    assert await cut(whole, 2, "t", p0=3) == {0: (-1, ErrorCode.POLICY_VIOLATION)}
    await whole.create("__consumer_offsets")
    assert await cut(whole, 2, "__consumer_offsets", p0=0) == {0: (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)}
