"""The decoded forms of long requests are bounded by sum: what is too much waits for its turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pybroker.api.element_budget import ElementBudget, Reservation, parked
from pybroker.protocol import codec
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from testing.scenes.api.whole import Whole

VERSION = 11


def names(count: int) -> memoryview:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(count)]
    return framed(MetadataRequest(topics=topics, allow_auto_topic_creation=False), VERSION)


def framed(request: Any, version: int) -> memoryview:
    parts: list[Any] = codec.encode_request(request, version, correlation_id=77, client_id="test")
    return memoryview(bytearray(b"".join(parts)))[4:]


async def started(directory: Path) -> tuple[Whole, ElementBudget]:
    whole = await Whole(directory, auto_create_topics_enable=False).start()
    whole.dispatcher.loop_elements_max = 2
    return whole, whole.dispatcher._long_messages.budget


async def test_requests_wait_in_order_and_a_single_one_never_does() -> None:
    budget, order = ElementBudget(10), []

    async def one(name: str, elements: int) -> None:
        await budget.take(elements)
        order.append(name)

    tasks = [asyncio.ensure_future(one(name, elements)) for name, elements in (("large", 50), ("first", 8), ("second", 2))]
    await asyncio.sleep(0)
    assert (order, budget.waiting, budget.used) == (["large"], 2, 50)
    tasks.append(asyncio.ensure_future(one("third", 1)))
    budget.give_back(50)
    await asyncio.gather(*tasks[:3])
    assert (order, budget.waiting, budget.used) == (["large", "first", "second"], 1, 10)
    tasks[3].cancel()
    await asyncio.sleep(0)
    budget.give_back(10)
    assert (order, budget.waiting, budget.used) == (["large", "first", "second"], 0, 0)


async def test_two_hold_a_reservation() -> None:
    budget = ElementBudget(10)
    reservation = Reservation(budget)
    await reservation.take(9)
    reservation.keep(4)
    reservation.keep(6)
    assert budget.used == 4
    reservation.end()
    assert (budget.used, reservation.is_abandoned) == (4, True)
    reservation.end()
    assert budget.used == 0
    parked()  # of a task without a long request: nothing


def used_after_decoding(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the elements in use whenever a request has been decoded."""
    used: list[int] = []
    decode = whole.dispatcher._long_messages.decode

    async def decoded(*arguments: Any) -> Any:
        result = await decode(*arguments)
        used.append(whole.dispatcher._long_messages.budget.used)
        return result

    monkeypatch.setattr(type(whole.dispatcher._long_messages), "decode", staticmethod(decoded))
    return used


async def test_a_long_request_has_its_elements_until_its_response_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, budget = await started(tmp_path)
    used = used_after_decoding(whole, monkeypatch)
    encode = whole.dispatcher._long_messages.encode

    def encoded(*arguments: Any, **keywords: Any) -> Any:
        used.append(budget.used)
        return encode(*arguments, **keywords)

    monkeypatch.setattr(type(whole.dispatcher._long_messages), "encode", staticmethod(encoded))
    await whole.dispatcher.handle(whole.connection, names(100))  # type: ignore[misc]  # it is parked
    assert (used, budget.used) == ([100, 100], 0)


async def test_a_request_waits_while_others_have_the_elements_and_ends_with_its_connection(tmp_path: Path) -> None:
    whole, budget = await started(tmp_path)
    budget.elements_max = 150
    await budget.take(100)
    first, second = (whole.dispatcher.handle(whole.connection, names(100)) for _ in range(2))
    await asyncio.sleep(0.01)
    assert (budget.waiting, budget.used) == (2, 100)
    assert isinstance(first, asyncio.Future)
    first.cancel()
    budget.give_back(100)
    await second  # type: ignore[misc]  # it is parked
    await asyncio.sleep(0)
    assert (budget.waiting, budget.used) == (0, 0)


async def test_damage_gives_the_elements_back(tmp_path: Path) -> None:
    whole, budget = await started(tmp_path)
    with pytest.raises(Exception, match="cannot be read"):
        await whole.dispatcher.handle(whole.connection, names(100)[:-6])  # type: ignore[misc]  # it is parked
    assert budget.used == 0
