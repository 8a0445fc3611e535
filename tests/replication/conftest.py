"""Everything here runs on the native loops of a fetch, where they were built, and on the pure ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.scenes.replication.loops import LOOPS, use


@pytest.fixture(scope="module", autouse=True, params=LOOPS)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    with use(request.param):
        yield
