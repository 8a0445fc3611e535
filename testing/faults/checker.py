"""Checks what the clients of a run saw. `problems` returns a line for everything that must not be.

lost      an acknowledged number is not at its offset, or a record of a committed transaction is missing
twice     a number is there more than once
order     a client's numbers are not in the order in which they were sent
missing   a number has neither failed nor is there
invented  a value that no client wrote
aborted   a record of an aborted transaction is read
torn      a transaction is there in part
changed   a reader saw another thing than is there in the end
skipped   a group passed over a record
differs   the clients do not read the same in the end
back      a committed offset is smaller than one that was confirmed before
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from testing.clients.sequences.roles import END, LEFT, RIGHT
from testing.faults.clients import PARTITIONS, Seen, Where

Contents = Mapping[Where, dict[int, str]]
"""The values of each partition by offset."""


def problems(clients: Iterable[Seen], committed: Mapping[str, Mapping[Where, int]]) -> list[str]:
    """Return what is wrong. `committed` has the offsets of each client's group in the end, by the client's name."""
    everything = list(clients)
    contents = {where: dict(records) for where, records in everything[0].last.items()}
    found = list(_readers(everything, contents))
    for client in everything:
        found += _numbers(client, contents)
        found += _back(client, committed[client.name])
    return found + list(_transactions(everything, contents))


def _numbers(client: Seen, contents: Contents) -> Iterator[str]:
    for number, offset in client.acked.items():
        there = contents[client.name, number % PARTITIONS].get(offset)
        if there != str(number):
            yield f"lost: {client.name} has {there} at {offset} of {number % PARTITIONS}, and not {number}"
    seen: set[int] = set()
    for partition in range(PARTITIONS):
        records = contents[client.name, partition]
        numbers = [int(records[offset]) for offset in sorted(records) if records[offset] != END]
        for before, number in zip([-1, *numbers], numbers, strict=False):
            if number in seen:
                yield f"twice: {client.name} {number}"
            elif number < before:
                yield f"order: {client.name} {number} is behind {before}"
            if number % PARTITIONS != partition or number >= client.sent:
                yield f"invented: {client.name} {number} in {partition}"
            seen.add(number)
    for number in range(client.sent):
        if number not in seen and number not in client.failed:
            yield f"missing: {client.name} {number}"


def _transactions(clients: list[Seen], contents: Contents) -> Iterator[str]:
    places: dict[tuple[str, str], list[int]] = {}
    for topic in (LEFT, RIGHT):
        for partition in range(PARTITIONS):
            records = contents[topic, partition]
            values = [records[offset] for offset in sorted(records) if records[offset] != END]
            for value in values:
                places.setdefault((topic, value), []).append(partition)
            yield from _order_of_transactions(f"{topic}-{partition}", values)
    for client in clients:
        for number, outcome in client.outcomes.items():
            here, there, value = number % PARTITIONS, (number + 1) % PARTITIONS, f"{client.name}:{number}"
            wanted = {(LEFT, value): here, (RIGHT, value): here, (RIGHT, f"{value}+"): there}
            found = {key: places.pop(key) for key in wanted if key in places}
            if any(partitions != [wanted[key]] for key, partitions in found.items()):
                yield f"twice: {value} ({outcome}): {found}"
            if outcome == "committed" and len(found) < len(wanted):
                yield f"lost: {value} is committed, and there is {found}"
            elif outcome == "aborted" and found:
                yield f"aborted: {value}: {found}"
            elif 0 < len(found) < len(wanted):
                yield f"torn: {value} ({outcome}): {found}"
    for key in places:
        yield f"invented: {key}"


def _order_of_transactions(where: str, values: list[str]) -> Iterator[str]:
    before: dict[str, tuple[int, bool]] = {}
    for value in values:
        name, _, number = value.partition(":")
        place = (int(number.rstrip("+")), number.endswith("+"))
        if place <= before.get(name, (-1, False)):
            yield f"order: {value} in {where} is behind {before[name]}"
        before[name] = place


def _readers(clients: list[Seen], contents: Contents) -> Iterator[str]:
    for client in clients:
        for where, records in contents.items():
            if client.last[where] != sorted(records.items()):
                yield f"differs: {client.name} reads {where} in another way than {clients[0].name}"
            reads = client.reads.get(where, [])
            for offset, value in reads:
                if records.get(offset) != value:
                    yield f"changed: {client.name} read {value} at {offset} of {where}, where there is {records.get(offset)}"
            left_out = records.keys() - {offset for offset, _ in reads}
            if left_out:
                yield f"skipped: {client.name} did not read {sorted(left_out)[:5]} of {where}"


def _back(client: Seen, committed: Mapping[Where, int]) -> Iterator[str]:
    for where, offset in client.stored.items():
        if committed.get(where, -1) < offset:
            yield f"back: the group of {client.name} is at {committed.get(where)} of {where}, after {offset}"
