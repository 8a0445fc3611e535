"""The random search for requests that hold the loop finds one, and what it sends are requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.registry import APIS, load_api
from pybroker.protocol import codec
from pybroker.protocol.api_keys import ApiKey
from tests.turns.search import Search, Shape, World, arrays, request_of

LIMIT_MS = 100.0


def small(folder: Path) -> World:
    return World(folder, partitions=2)


def slow(folder: Path) -> World:
    """Return a world in which large requests hold the loop: a fault put in on purpose."""
    world = small(folder)
    usual = world.handle

    def handle(connection: Any, frame: memoryview) -> Any:
        if len(frame) > 1_000:
            time.sleep(2 * LIMIT_MS / 1_000)
        return usual(connection, frame)

    world.handle = handle
    return world


@pytest.mark.judges_time
@pytest.mark.parametrize(("new_world", "is_found"), [(slow, True), (small, False)])
def test_a_request_that_holds_the_loop_is_found(new_world: Callable[[Path], World], is_found: bool) -> None:
    search = Search(ApiKey.OFFSET_DELETE, elements_max=2_000, limit_ms=LIMIT_MS, new_world=new_world)
    found = search.run(examples=3, number=1)
    assert bool(found) is is_found
    assert all(one.shape.elements > 10 and one.turn.held_ns > LIMIT_MS * 1e6 for one in found)


@pytest.mark.parametrize("key", APIS, ids=lambda key: APIS[key].name)
def test_every_request_that_is_drawn_can_be_sent(key: int) -> None:
    api = load_api(key)
    grown = set()
    for version in range(api.lowest, api.highest + 1):
        for contents in range(6):
            few, many = (
                sum(len(bytes(part)) for part in codec.encode_request(request, version, correlation_id=1, client_id="c"))  # type: ignore[arg-type,misc]  # no late parts
                for request in (request_of(api.request, Shape(version, contents, elements, contents)) for elements in (1, 300))
            )
            grown.add(many - few)
    has_arrays = any(any(arrays(api.request, version)) for version in range(api.lowest, api.highest + 1))
    assert (max(grown) >= 299) is has_arrays
