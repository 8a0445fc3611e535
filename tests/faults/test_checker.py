"""Each kind of fault in what clients saw is found."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from testing.clients.sequences.roles import END
from testing.faults.checker import problems
from testing.faults.clients import PARTITIONS, Seen, Where

COUNT = 9


def contents() -> dict[Where, list[tuple[int, str]]]:
    """Return what a client named `one` has written: numbers, and the transactions 0 (committed), 1 (aborted) and 2 (unknown)."""
    found: dict[Where, list[tuple[int, str]]] = {}
    for partition in range(PARTITIONS):
        found["one", partition] = [(place, str(partition + PARTITIONS * place)) for place in range(COUNT // PARTITIONS)]
        found["left", partition], found["right", partition] = [], []
    for number in (0, 2):
        here, there = number % PARTITIONS, (number + 1) % PARTITIONS
        for topic, partition, value in (("left", here, ""), ("right", here, ""), ("right", there, "+")):
            records = found[topic, partition]
            records.append((2 * len(records), f"one:{number}{value}"))
    for records in found.values():
        records.append((100, END))
    return found


def history() -> list[Seen]:
    """Return what two clients saw, of which the second one only reads."""
    first, second = Seen("one"), Seen("two", sent=0)
    first.sent, first.outcomes = COUNT, {0: "committed", 1: "aborted", 2: "unknown"}
    first.acked = {number: number // PARTITIONS for number in range(COUNT)}
    first.stored = {("one", 0): 2}
    for one in (first, second):
        one.reads |= copy.deepcopy(contents())
        one.last |= copy.deepcopy(contents())
    for one in (first, second):
        for partition in range(PARTITIONS):
            one.reads["two", partition] = one.last["two", partition] = [(0, END)]
    return [first, second]


def found(clients: list[Seen], committed: int = 2) -> set[str]:
    """Return the kinds of problems."""
    return {line.partition(":")[0] for line in problems(clients, {"one": {("one", 0): committed}, "two": {}})}


def test_a_history_without_faults_has_no_problem() -> None:
    assert not found(history())


def everywhere(clients: list[Seen], where: Where, records: list[tuple[int, str]]) -> None:
    for one in clients:
        one.last[where] = list(records)
        one.reads[where] = list(records)


def loses(clients: list[Seen]) -> None:
    everywhere(clients, ("one", 0), [(0, "0"), (1, "6"), (100, END)])
    clients[0].failed[3] = "time is over"


def misses(clients: list[Seen]) -> None:
    everywhere(clients, ("one", 0), [(0, "0"), (2, "6"), (100, END)])
    del clients[0].acked[3]


def doubles(clients: list[Seen]) -> None:
    everywhere(clients, ("one", 0), [(0, "0"), (1, "3"), (2, "6"), (3, "6"), (100, END)])


def reorders(clients: list[Seen]) -> None:
    everywhere(clients, ("one", 0), [(0, "3"), (1, "0"), (2, "6"), (100, END)])
    clients[0].acked |= {0: 1, 3: 0}


def invents(clients: list[Seen]) -> None:
    everywhere(clients, ("left", 1), [(0, "one:7"), (100, END)])


def shows_aborted(clients: list[Seen]) -> None:
    everywhere(clients, ("left", 1), [(0, "one:1"), (100, END)])


def tears(clients: list[Seen]) -> None:
    everywhere(clients, ("left", 2), [(100, END)])


def loses_a_transaction(clients: list[Seen]) -> None:
    everywhere(clients, ("left", 0), [(100, END)])


def changes(clients: list[Seen]) -> None:
    clients[1].reads["one", 0][1] = (1, "4")


def skips(clients: list[Seen]) -> None:
    del clients[1].reads["one", 0][1]


def differs(clients: list[Seen]) -> None:
    del clients[1].last["one", 0][1]


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (loses, {"lost"}),
        (misses, {"missing"}),
        (doubles, {"twice"}),
        (reorders, {"order"}),
        (invents, {"invented"}),
        (shows_aborted, {"aborted"}),
        (tears, {"torn"}),
        (loses_a_transaction, {"lost"}),
        (changes, {"changed"}),
        (skips, {"skipped"}),
        (differs, {"differs"}),
    ],
)
def test_each_fault_is_found(fault: Callable[[list[Seen]], None], kinds: set[str]) -> None:
    clients = history()
    fault(clients)
    assert found(clients) == kinds


def test_a_committed_offset_that_goes_back_is_found() -> None:
    assert found(history(), committed=1) == {"back"}
