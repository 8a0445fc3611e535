"""A failed request leaves nothing behind, even without the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from array import array
from collections.abc import Generator, Iterator
from pathlib import Path
from unittest import mock

import pytest

from pybroker.api.handlers import list_groups
from pybroker.failures import drop_frames
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.list_groups import ListGroupsRequest
from pybroker.sharing import loop
from testing.scenes.api.whole import Whole


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


class Work:
    """Work that fails, and knows whether what it has made is still there."""

    def __init__(self) -> None:
        self.made: list[weakref.ref[array[int]]] = []

    def fail(self, _: object = None) -> str:
        made = array("b", bytes(1000))
        self.made.append(weakref.ref(made))
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    def failing(self, steps: int) -> Generator[None, None, str]:
        for _ in range(steps):
            yield
        return self.fail()

    def is_freed(self) -> bool:
        return [made() for made in self.made] == [None]


def test_a_kept_exception_is_in_no_cycle() -> None:
    work = Work()

    def keep() -> str:
        outcomes: list[Exception] = []
        try:
            try:
                work.fail()
            except KafkaError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "no") from error
        except KafkaError as error:
            outcomes.append(drop_frames(error))
        return str(outcomes[0])

    assert keep().endswith("no")
    assert work.is_freed()


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_what_a_request_has_made_that_fails_in_a_later_slice_is_freed(is_awaited: bool, tmp_path: Path) -> None:
    work = Work()
    whole = await Whole(tmp_path).start()

    def handle(*_: object) -> object:
        return wait() if is_awaited else loop.in_slices(work.failing(3))

    async def wait() -> object:
        ready = asyncio.ensure_future(loop.complete(work.failing(3)))
        try:
            return await ready
        except KafkaError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "no") from error

    with mock.patch("pybroker.sharing.work.SLICE_S", 0.0), mock.patch.object(list_groups, "handle", handle):
        request = ListGroupsRequest()
        waiting = whole.send(request, 4)
        assert isinstance(waiting, asyncio.Future)
        response = await waiting
        del waiting
    assert whole.read(response, request, 4).error_code in {ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REQUEST}
    await asyncio.sleep(0)
    assert work.is_freed()
