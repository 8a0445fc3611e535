"""Prints what kafka-consumer-groups shows of groups: lists, offsets, members, states and deletions.

The columns, line ends included, are those of Kafka 3.9: scripts cut them. Rows are sorted, while Kafka's come by their hashes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.tools.groups_admin import LATEST, Group, Groups, Member, Partition, by_topic
from pybroker.tools.kafka_errors import exception_of, sentence_of

if TYPE_CHECKING:
    from pybroker.tools.options import Options

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class Row(NamedTuple):
    """A partition of a group, in the order of the columns."""

    group: str
    topic: str
    partition: str
    offset: str
    end: str
    lag: str
    member: str
    host: str
    client: str


def print_list(groups: Groups, options: Options, states: Sequence[str], types: Sequence[str]) -> None:
    """Print all groups, or those of some states and types."""
    listed = groups.listed(states, types)
    if not options.has("state", "type"):
        for one in listed:
            print(one.group_id)
        return
    width = max((max(15, len(one.group_id)) for one in listed), default=15) + 10
    shown = [heading for heading in ("TYPE", "STATE") if options.has(heading.lower())]
    print(f"{'GROUP':<{width}}" + "".join(f" {heading:<20}" for heading in shown))
    for one in listed:
        texts = {"TYPE": one.group_type.title(), "STATE": one.group_state}
        print(f"{one.group_id:<{width}}" + "".join(f" {texts[heading]:<20}" for heading in shown))


def print_described(groups: Groups, group_ids: Sequence[str], options: Options) -> None:
    """Print offsets, members or states of groups. Raises RefusedError."""
    described = [groups.described(group_id) for group_id in sorted(group_ids)]
    for group in described:
        if options.has("members"):
            print_members(group, is_verbose=options.has("verbose"))
        elif options.has("state"):
            if is_shown(group, 1):
                print_state(group, groups.coordinator(group.group_id))
        else:
            rows = rows_of(groups, group)
            if is_shown(group, len(rows)):
                print_offsets(rows)


def is_shown(group: Group, count: int) -> bool:
    """Print what is special about the group's state, and return whether it has something to show."""
    sys.stdout.flush()
    if group.state == "Dead":
        print(f"\nError: Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    return group.state != "Dead" and count > 0


def rows_of(groups: Groups, group: Group) -> list[Row]:
    """Return what each member reads, and then committed partitions that no member reads. Raises RefusedError."""
    committed = groups.committed(group.group_id)
    readers = sorted((one for one in group.members if one.assigned), key=lambda one: -len(one.assigned))
    read = {partition for one in readers for partition in one.assigned}
    ends = groups.offsets(read | committed.keys(), LATEST)
    rows = []
    for one in readers:
        rows += [_row(group, p, offset=committed.get(p), end=ends.get(p), member=one) for p in sorted(one.assigned)]
    rows += [_row(group, p, offset=committed[p], end=ends.get(p), member=None) for p in sorted(committed) if p not in read]
    return rows


def _row(group: Group, partition: Partition, *, offset: int | None, end: int | None, member: Member | None) -> Row:
    lag = None if offset is None or end is None else end - offset
    member_id, host, client = (MISSING,) * 3 if member is None else (member.member_id, member.host, member.client_id)
    return Row(
        group=group.group_id,
        topic=partition.topic,
        partition=str(partition.number),
        offset=_shown(offset),
        end=_shown(end),
        lag=_shown(lag),
        member=member_id,
        host=host,
        client=client,
    )


def _shown(number: int | None) -> str:
    return MISSING if number is None else str(number)


def print_offsets(rows: Sequence[Row]) -> None:
    """Print the rows with a line break before each line and none behind the last, as in Kafka's tool."""
    group, topic = max(15, *(len(row.group) for row in rows)), max(15, *(len(row.topic) for row in rows))
    member, host = max(15, *(len(row.member) for row in rows)), max(15, *(len(row.host) for row in rows))
    heading = Row("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    widths = (group, topic, 10, 15, 15, 15, member, host, 0)
    for row in (heading, *rows):
        print("\n" + " ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)), end="")


def print_members(group: Group, *, is_verbose: bool) -> None:
    """Print the members; for a group without any, only the headings."""
    members = sorted(group.members)
    if not is_shown(group, len(members)):
        members = []
    has_instances = any(one.instance_id for one in members)
    columns: list[tuple[str, int, list[str]]] = [
        ("GROUP", 15, [group.group_id for _ in members]),
        ("CONSUMER-ID", 15, [one.member_id for one in members]),
        *([("GROUP-INSTANCE-ID", 17, [one.instance_id for one in members])] if has_instances else []),
        ("HOST", 15, [one.host for one in members]),
        ("CLIENT-ID", 15, [one.client_id for one in members]),
    ]
    widths = [max(least, *(len(text) for text in texts), 0) for _, least, texts in columns]
    heading = " ".join(f"{name:<{width}}" for (name, _, _), width in zip(columns, widths, strict=True))
    print(f"\n{heading} {'#PARTITIONS':<15} {'ASSIGNMENT' if is_verbose else ''}")
    for index, one in enumerate(members):
        texts = " ".join(f"{texts[index]:<{width}}" for (_, _, texts), width in zip(columns, widths, strict=True))
        print(f"{texts} {len(one.assigned):<15} {assignment_text(one.assigned) if is_verbose else ''}")


def assignment_text(partitions: Sequence[Partition]) -> str:
    """Return the partitions of each topic, without its name: as Kafka 3.9 prints them."""
    if not partitions:
        return MISSING
    return ", ".join(sorted(f"({','.join(sorted(map(str, indexes)))})" for indexes in by_topic(partitions).values()))


def print_state(group: Group, coordinator: str) -> None:
    """Print the coordinator, the assignor, the state and the number of members."""
    width = max(25, len(coordinator))
    heading = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    for row in (heading, (group.group_id, coordinator, group.assignor, group.state, str(len(group.members)))):
        print(f"\n{row[0]:<{width}} {row[1]:<25} {row[2]:<20} {row[3]:<15} {row[4]}", end="")
    print()


def print_deleted(groups: Groups, group_ids: Sequence[str]) -> None:
    """Delete groups and print the result of each."""
    errors = groups.delete(group_ids) if group_ids else {}
    done = [group_id for group_id, error in errors.items() if not error]
    failed = {group_id: error for group_id, error in errors.items() if error}
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(done)}') was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for group_id, error in failed.items():
        print(f"* Group '{group_id}' could not be deleted due to: {failure(error)}")
    if done:
        print("\nThese consumer groups were deleted successfully: '" + "'".join(done) + "', '")


def failure(error: int) -> str:
    """Return an error as the exception that Kafka's tool prints."""
    return f"java.util.concurrent.ExecutionException: {exception_of(error)}: {sentence_of(error)}"
