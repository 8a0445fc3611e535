"""kafka-get-offsets: prints offsets of partitions by time, one per line.

Source: org.apache.kafka.tools.GetOffsetShell of Kafka 3.9.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from pybroker.client.errors import ClientError
from pybroker.protocol.messages.metadata import MetadataRequest
from pybroker.tools.admin import Admin, RefusedError
from pybroker.tools.errors import CommandError
from pybroker.tools.kafka_errors import exception_of, sentence_of
from pybroker.tools.leaders import list_offsets
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, Target, client_properties, target_of
from pybroker.tools.topics import TopicError, wanted

KINDS = {
    **OPTIONS,
    **dict.fromkeys(("broker-list", "topic", "partitions", "topic-partitions", "time"), VALUE),
    "exclude-internal-topics": FLAG,
}
HELP = """An interactive shell for getting topic-partition offsets.
--bootstrap-server HOST:PORT  the brokers to connect to; --broker-list is the same
--command-config FILE         a properties file with settings of the client
--topic REGEX, --partitions N,N  the partitions; or --topic-partitions TOPIC:N,TOPIC:N-M
--time TIME                   a time in ms, or -1 or latest (the default), -2 or earliest, -3 or max-timestamp,
                              -4 or earliest-local, -5 or latest-tiered
--exclude-internal-topics     leave out internal topics
"""

WAIT_S = 5.0
"""How long a partition without a leader is waited for."""
TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|([0-9]*)-([0-9]*)))?")
Rule = Callable[[str, int], bool]


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    target = _target(tool, options)
    if options.has("topic-partitions") and options.has("topic", "partitions"):
        raise CommandError("Error occurred: --topic-partitions cannot be used with --topic or --partitions")
    at = _time(options.value("time") or "latest")
    try:
        with Admin(target) as admin:
            for line in _lines(admin, options, at):
                print(line)
    except (RefusedError, TopicError) as error:
        raise CommandError(f"Error occurred: {error}") from error
    except ClientError as error:
        raise CommandError(f"Error occurred: Timed out waiting for a node assignment. Call: listTopics ({error})") from error
    return 0


def _target(tool: str, options: Options) -> Target:
    old = options.value("broker-list")
    if old is not None and not options.has("bootstrap-server"):
        return Target(old, client_properties(options.value("command-config")))
    return target_of(tool, options, is_required=False)


def _time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise CommandError(
            f"Error occurred: Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def _lines(admin: Admin, options: Options, at: int) -> list[str]:
    """Return the offsets, sorted as text. Raises CommandError, RefusedError, TopicError."""
    topics = [t for t in admin.ask(MetadataRequest(topics=None), 9).topics if not t.error_code]
    partitions = _partitions(topics, options)
    if not partitions:
        raise CommandError("Error occurred: Could not match any topic-partitions with the specified filters")
    found = {}
    for topic, one in list_offsets(admin, partitions, at, version=9, wait_s=WAIT_S):
        name = f"{topic}-{one.partition_index}"
        if one.error_code:
            reason = f"{exception_of(one.error_code)}: {sentence_of(one.error_code)}"
            print(f"Skip getting offsets for topic-partition {name} due to error: {reason}", file=sys.stderr)
        elif one.offset >= 0:
            found[name] = f"{topic}:{one.partition_index}:{one.offset}"
    return [found[name] for name in sorted(found)]


def _partitions(topics: list[Any], options: Options) -> dict[str, list[int]]:
    names = [(topic.name, topic.is_internal) for topic in topics]
    is_internal_left_out = options.has("exclude-internal-topics")
    text = options.value("topic-partitions")
    if text is not None:
        rules = [_rule(one) for one in text.split(",")]
    else:
        kept = set(wanted(names, options.value("topic"), is_internal_left_out=is_internal_left_out))
        indexes = _indexes(options.value("partitions"))
        rules = [lambda topic, index: topic in kept and (not indexes or index in indexes)]
    left = set(wanted(names, None, is_internal_left_out=is_internal_left_out))
    found: dict[str, list[int]] = {}
    for topic in topics:
        for partition in topic.partitions:
            index = partition.partition_index
            if topic.name in left and any(rule(topic.name, index) for rule in rules):
                found.setdefault(topic.name, []).append(index)
    return found


def _indexes(text: str | None) -> set[int]:
    try:
        return {int(one) for one in text.split(",")} if text else set()
    except ValueError:
        raise CommandError(
            f"Error occurred: --partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None


def _rule(text: str) -> Rule:
    """Parse one entry of --topic-partitions: `topic`, `topic:3`, `topic:3-`, `topic:-5`, `topic:3-5`, without the last."""
    match = RULE.fullmatch(text)
    if match is None:
        raise CommandError(f"Error occurred: Invalid rule specification: {text}")
    expression, only, first, last = match.groups()

    def rule(topic: str, index: int) -> bool:
        if expression and not wanted([(topic, False)], expression, is_internal_left_out=False):
            return False
        if only:
            return index == int(only)
        return (not first or index >= int(first)) and (not last or index < int(last))

    return rule
