"""Everything here runs on the native loops of a fetch, where they were built, and on the pure ones.

No deadline for a single example: time is no property of what is tested.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.replication.loops import LOOPS, use

settings.register_profile("replication", deadline=None)
settings.load_profile("replication")


@pytest.fixture(scope="module", autouse=True, params=LOOPS)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    with use(request.param):
        yield
