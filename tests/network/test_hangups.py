"""A connection that is not read is watched for its peer's end, unless its request has its response within a moment."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from pybroker.network.hangups import Hangups

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no epoll")


class Parked:
    """A connection that notes how its peer ended."""

    def __init__(self) -> None:
        self.socket, self.peer = socket.socketpair()
        self.ended = asyncio.Event()
        self.is_lost: bool | None = None

    @property
    def descriptor(self) -> int:
        return self.socket.fileno()

    def peer_ended(self, *, is_lost: bool) -> None:
        self.is_lost = is_lost
        self.ended.set()

    def close(self) -> None:
        self.socket.close()
        self.peer.close()


@pytest.fixture
def parked() -> Iterator[Parked]:
    one = Parked()
    yield one
    one.close()


async def iterations(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("iteration_count", [0, 1])
async def test_a_connection_that_is_released_within_an_iteration_takes_no_system_call(
    parked: Parked, iteration_count: int
) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    with mock.patch.object(hangups, "_epoll", mock.Mock(wraps=hangups._epoll)) as epoll:
        hangups.watch(parked)
        await iterations(iteration_count)
        hangups.unwatch(parked)
        await iterations(3)
    assert epoll.register.call_count == epoll.unregister.call_count == 0
    hangups.close()


async def test_a_connection_that_remains_parked_learns_of_its_peers_end(parked: Parked) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    hangups.watch(parked)
    parked.peer.shutdown(socket.SHUT_WR)
    await parked.ended.wait()
    assert parked.is_lost is False
    hangups.close()


async def test_a_connection_whose_peer_was_gone_before_it_was_watched_learns_it_too(parked: Parked) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    parked.peer.close()
    hangups.watch(parked)
    await parked.ended.wait()
    assert parked.is_lost is True
    hangups.close()


async def test_a_connection_can_be_watched_again(parked: Parked) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    for iteration_count in (0, 1, 2, 3, 0, 2, 1):
        hangups.watch(parked)
        await iterations(iteration_count)
        hangups.unwatch(parked)
    await iterations(2)
    parked.peer.close()
    await iterations(3)
    assert parked.is_lost is None, "it is not watched now"
    hangups.close()


async def test_nothing_is_scheduled_while_no_connection_is_new(parked: Parked) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    hangups.watch(parked)
    await iterations(3)
    assert not hangups._is_scheduled
    hangups.close()


async def test_a_connection_whose_socket_is_closed_before_it_is_released_leaves_that_of_another_watched(parked: Parked) -> None:
    hangups = Hangups(asyncio.get_running_loop())
    hangups.watch(parked)
    await iterations(4)
    number = parked.descriptor
    parked.close()
    other = Parked()
    try:
        assert other.descriptor == number, "the lowest free number is the next"
        hangups.watch(other)
        await iterations(4)
        hangups.unwatch(parked)
        other.peer.close()
        await asyncio.wait_for(other.ended.wait(), 30)
    finally:
        other.close()
        hangups.close()
