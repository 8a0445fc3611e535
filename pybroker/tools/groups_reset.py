"""Resets or deletes committed offsets.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.tools.admin import RefusedError
from pybroker.tools.errors import CommandError
from pybroker.tools.groups_admin import EARLIEST, LATEST, Groups, Partition
from pybroker.tools.kafka_errors import GROUP_ID_NOT_FOUND, exception_of, sentence_of

if TYPE_CHECKING:
    from pybroker.tools.options import Options

INACTIVE: Final = ("Empty", "Dead")
DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d*)?)S)?)?", re.IGNORECASE
)


class ResetError(Exception):
    """An error that Kafka's tool prints on stdout after its standard words."""


def print_reset(groups: Groups, group_ids: Sequence[str], options: Options) -> None:
    """Plan, and with --execute commit; then print the plan. Raises RefusedError, CommandError."""
    planned: dict[str, dict[Partition, int]] = {}
    try:
        for group_id in sorted(group_ids):
            state = groups.described(group_id).state
            if state not in INACTIVE:
                print(
                    f"\nError: Assignments can only be reset if the group '{group_id}' is inactive, "
                    f"but the current state is {state}."
                )
                planned[group_id] = {}
                continue
            planned[group_id] = plan = _plan(groups, group_id, options)
            if options.has("execute"):
                groups.commit(group_id, plan)
    except ResetError as error:
        print(f"\nError: Executing consumer group command failed due to {error}")
        return
    if options.has("export"):
        _print_csv(planned, has_group=len(options.values("group")) != 1)
    else:
        _print_plan(planned)


def _print_plan(planned: Mapping[str, Mapping[Partition, int]]) -> None:
    """Print the whole plan in one line, as Kafka 3.9 does."""
    form = "{:<30} {:<30} {:<10} {:<15}"
    if planned:
        print("\n" + form.format("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), end="")
    for group_id, plan in planned.items():
        for partition in sorted(plan):
            print(form.format(group_id, partition.topic, partition.number, plan[partition]), end="")


def _print_csv(planned: Mapping[str, Mapping[Partition, int]], *, has_group: bool) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for group_id, plan in planned.items():
        for partition in sorted(plan):
            writer.writerow([*([group_id] if has_group else []), partition.topic, partition.number, plan[partition]])
    print()


# --- the plan ---


def _plan(groups: Groups, group_id: str, options: Options) -> dict[Partition, int]:
    """Return the new offsets of a group. Raises RefusedError, ResetError, CommandError."""
    file = options.value("from-file")
    if file is not None:
        plans = _plans_of(file, options.values("group"))
        if group_id not in plans:
            print(f"\nError: No reset plan for group {group_id} found")
            return {}
        return _within(groups, plans[group_id])
    partitions = _scope(groups, group_id, options)
    offset, shift = options.number("to-offset", is_long=True), options.number("shift-by", is_long=True)
    moment, duration = options.value("to-datetime"), options.value("by-duration")
    if offset is not None:
        return _within(groups, dict.fromkeys(partitions, offset))
    if options.has("to-earliest"):
        return groups.offsets(partitions, EARLIEST)
    if options.has("to-latest"):
        return groups.offsets(partitions, LATEST)
    if shift is not None:
        return _within(groups, _shifted(groups.committed(group_id), partitions, shift))
    if moment is not None:
        return _at(groups, partitions, milliseconds(moment))
    if duration is not None:
        return _at(groups, partitions, int(time.time() * 1000) - duration_ms(duration))
    if options.has("to-current"):
        committed = groups.committed(group_id)
        kept = {partition: committed[partition] for partition in partitions if partition in committed}
        return kept | groups.offsets([partition for partition in partitions if partition not in committed], LATEST)
    scenarios = "[to-offset], [shift-by], [to-datetime], [by-duration], [to-earliest], [to-latest], [to-current], [from-file]"
    raise CommandError(f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]")


def _scope(groups: Groups, group_id: str, options: Options) -> list[Partition]:
    if options.has("all-topics"):
        return sorted(groups.committed(group_id))
    if not options.has("topic"):
        raise CommandError("One of the reset scopes should be defined: --all-topics, --topic.")
    return [partition for topic in options.values("topic") for partition in chosen(topic, groups.partitions_of)]


def chosen(text: str, partitions_of: Callable[[str], list[Partition]]) -> list[Partition]:
    """Return the partitions of `topic` or `topic:0,2`. Raises CommandError."""
    if ":" not in text:
        return partitions_of(text)
    topic, _, indexes = text.partition(":")
    if not indexes or ":" in indexes:
        raise CommandError(f"Invalid topic arg '{text}', expected topic name and partitions")
    found = []
    for index in indexes.split(","):
        if not index.isdecimal():
            raise CommandError(f"Invalid partition '{index}' specified in topic arg '{text}''")
        found.append(Partition(topic, int(index)))
    return found


def _shifted(committed: Mapping[Partition, int], partitions: Sequence[Partition], shift: int) -> dict[Partition, int]:
    for partition in partitions:
        if partition not in committed:
            raise CommandError(
                f"Cannot shift offset for partition {partition.topic}-{partition.number} "
                "since there is no current committed offset"
            )
    return {partition: committed[partition] + shift for partition in partitions}


def _within(groups: Groups, wanted: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the offsets, each moved into the range that its partition holds."""
    starts, ends = groups.offsets(wanted, EARLIEST), groups.offsets(wanted, LATEST)
    for partition, offset in wanted.items():
        for word, limit, is_beyond in (("higher than latest", ends, offset > ends[partition]),
                                       ("lower than earliest", starts, offset < starts[partition])):  # fmt: skip
            if is_beyond:
                print(
                    f"WARN New offset ({offset}) is {word} offset for topic partition {partition.topic}-{partition.number}. "
                    f"Value will be set to {limit[partition]}",
                    file=sys.stderr,
                )
    return {partition: max(starts[partition], min(ends[partition], offset)) for partition, offset in wanted.items()}


def _at(groups: Groups, partitions: Sequence[Partition], at_ms: int) -> dict[Partition, int]:
    """Return the first offsets from a time on; the ends of partitions without a record that young."""
    found = groups.offsets(partitions, at_ms)
    late = [partition for partition, offset in found.items() if offset < 0]
    for partition in late:
        print(f"\nWarn: Partition {partition.number} from topic {partition.topic} is empty. Falling back to latest known offset.")
    return found | groups.offsets(late, LATEST)


def milliseconds(text: str) -> int:
    """Parse a time such as 2024-01-03T00:00:00.000, in UTC unless it has a zone. Raises ResetError."""
    if "T" not in text:
        raise ResetError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ResetError(f'java.text.ParseException: Unparseable date: "{text}"') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return round(moment.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Parse a duration such as P1DT2H. Raises ResetError."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.group(2, 4, 5, 6)) or match[3] in ("T", "t"):
        raise ResetError("Text cannot be parsed to a Duration")
    days, hours, minutes, seconds = (float(part or 0) for part in match.group(2, 4, 5, 6))
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000) * (-1 if match[1] == "-" else 1)


def _plans_of(path: str, group_ids: Sequence[str]) -> dict[str, dict[Partition, int]]:
    """Read the offsets by group from `topic,partition,offset` or `group,topic,partition,offset`. Raises ResetError."""
    try:
        lines = list(csv.reader(Path(path).read_text().splitlines()))
    except OSError:
        raise ResetError(f"java.io.IOException: Unable to read file {path}") from None
    plans: dict[str, dict[Partition, int]] = {}
    for number, line in enumerate(filter(None, lines), start=1):
        fields = [group_ids[0], *line] if len(line) == 3 and len(group_ids) == 1 else line
        try:
            group_id, topic, index, offset = fields
            plans.setdefault(group_id, {})[Partition(topic, int(index))] = int(offset)
        except ValueError:
            raise CommandError(f"{path}: line {number} is not [GROUP,]TOPIC,PARTITION,OFFSET") from None
    return plans


# --- deletion ---


def print_deleted_offsets(groups: Groups, options: Options) -> None:
    """Delete committed offsets and print the result of each. Raises CommandError."""
    group_id, topics = options.value("group") or "", options.values("topic")
    results: dict[Partition, int] = {}
    partitions: list[Partition] = []
    for topic in topics:
        try:
            partitions += chosen(topic, groups.partitions_of)
        except RefusedError as error:
            results[Partition(topic, -1)] = error.code
    of_group, deleted = groups.delete_offsets(group_id, partitions)
    for partition in partitions:
        results[partition] = of_group or deleted[partition]
    worst = of_group or next((code for code in deleted.values() if code), 0)
    print(_deletion(worst, group_id, topics))
    form = "{:<30} {:<15} {:<15}"
    print("\n" + form.format("TOPIC", "PARTITION", "STATUS"), end="")
    for partition in sorted(results, key=lambda one: f"{one.topic}{one.number}"):
        code = results[partition]
        status = f"Error: :{exception_of(code)}: {sentence_of(code)}" if code else "Successful"
        print(form.format(partition.topic, partition.number if partition.number >= 0 else "Not Provided", status), end="")


def _deletion(code: int, group_id: str, topics: Sequence[str]) -> str:
    if not code:
        return f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group_id}"
    if code == ErrorCode.INVALID_GROUP_ID:
        return f"\nError: '{group_id}' is not valid."
    if code == GROUP_ID_NOT_FOUND:
        return f"\nError: '{group_id}' does not exist."
    if code == ErrorCode.NON_EMPTY_GROUP:
        return f"\nError: Deleting offsets of a consumer group '{group_id}' is forbidden if the group is not empty."
    if code in (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return "\nError: Encounter some partition level error, see the follow-up details:"
    return f"\nError: Encounter some unknown error: {code}"
