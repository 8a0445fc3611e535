"""The members of etcd beside the controllers report how far they are and which of them leads; some may be away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pybroker.metadata.controllers import UNKNOWN, ControllerStanding
from pybroker.metadata.store.etcd.gateway import Gateway, LostError
from pybroker.model import BrokerId
from pybroker.quorum.members import Voter
from pybroker.quorum.standing import STATUS, standings

if TYPE_CHECKING:
    from collections.abc import Mapping

VOTERS = [Voter(str(number), f"kafka-{number}", 9093) for number in (1, 2, 3)]


def status(member: str, leader: str, *, term: str = "4", revision: str = "70") -> dict[str, Any]:
    """Return a report as etcd sends it: numbers are text, and a zero is absent."""
    found: dict[str, Any] = {"header": {"member_id": member, "revision": revision, "raft_term": term}, "version": "3.4.23"}
    return found if leader == "0" else found | {"leader": leader}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Yield the reports of the members by address, which is empty at first; a member without a report is away."""
    known: dict[str, dict[str, Any]] = {}

    async def call(self: Gateway, path: str, message: Mapping[str, Any], *, within_s: float) -> dict[str, Any]:
        assert (path, message, within_s) == (STATUS, {}, 1.0)
        if str(self) not in known:
            raise LostError("no response in time")
        return known[str(self)]

    monkeypatch.setattr(Gateway, "call", call)
    return known


def standing(number: int, *, is_leader: bool = False, epoch: int = 4, revision: int = 70) -> ControllerStanding:
    return ControllerStanding(BrokerId(number), f"kafka-{number}", 9093, is_leader=is_leader, epoch=epoch, revision=revision)


async def test_each_controller_has_its_revision_and_one_leads(reports: dict[str, dict[str, Any]]) -> None:
    reports["http://kafka-1:10093"] = status("101", "102")
    reports["http://kafka-2:10093"] = status("102", "102")
    reports["http://kafka-3:10093"] = status("103", "102", revision="68")
    assert await standings(VOTERS) == [standing(1), standing(2, is_leader=True), standing(3, revision=68)]


async def test_a_controller_that_does_not_respond_is_unknown(reports: dict[str, dict[str, Any]]) -> None:
    reports["http://kafka-1:10093"] = status("101", "101")
    reports["http://kafka-3:10093"] = status("103", "101")
    one, two, three = await standings(VOTERS)
    assert (one.is_leader, two, three) == (True, standing(2, epoch=UNKNOWN, revision=UNKNOWN), standing(3))


async def test_the_leader_of_the_last_term_leads(reports: dict[str, dict[str, Any]]) -> None:
    reports["http://kafka-1:10093"] = status("101", "101", term="3")  # it was cut off, and has not heard of the election
    reports["http://kafka-2:10093"] = status("102", "103")
    reports["http://kafka-3:10093"] = status("103", "103")
    assert [one.is_leader for one in await standings(VOTERS)] == [False, False, True]


async def test_without_a_majority_none_leads(reports: dict[str, dict[str, Any]]) -> None:
    reports["http://kafka-1:10093"] = status("101", "0")
    assert [one.is_leader for one in await standings(VOTERS)] == [False, False, False]
