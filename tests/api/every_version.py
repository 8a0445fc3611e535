"""The responses to a request in every version that it has."""

from __future__ import annotations

from typing import Any

from pybroker.protocol.codec import message_versions
from pybroker.protocol.schema import schema_of
from testing.scenes.api.whole import Whole


async def responses(whole: Whole, request: Any) -> list[Any]:
    """Return the response in each version."""
    key = schema_of(type(request)).api_key
    assert key is not None
    lowest, highest = message_versions(key)
    return [await whole.ask(request, version) for version in range(lowest, highest + 1)]
