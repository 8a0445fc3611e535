"""kafka-topics: lists, describes, creates, alters and deletes topics, in the words of Kafka 3.9.

Init containers wait with `--list`, and health checks run it, so it needs no codec; the other verbs are in `topics_admin`.

Source: org.apache.kafka.tools.TopicCommand.
"""

from __future__ import annotations

import sys

from pybroker.client.errors import ClientError
from pybroker.tools.errors import FAILED, CommandError
from pybroker.tools.metadata import metadata
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, Target, target_of

VERBS = ("list", "describe", "create", "alter", "delete")
REPORTS = ("under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions")
KINDS = {
    **OPTIONS,
    **dict.fromkeys((*VERBS, *REPORTS), FLAG),
    **dict.fromkeys(("topics-with-overrides", "if-exists", "if-not-exists", "exclude-internal"), FLAG),
    **dict.fromkeys(("topic", "topic-id", "config", "delete-config", "partitions", "replication-factor"), VALUE),
    **dict.fromkeys(("replica-assignment", "partition-size-limit-per-response"), VALUE),
}

HELP = """This tool helps to create, delete, describe, or change a topic.
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client
--list                        all topics, or those that --topic matches; --exclude-internal leaves out internal topics
--describe                    partitions and settings; of all topics, of --topic REGEX or of --topic-id ID, with --if-exists;
                              or only --topics-with-overrides, --under-replicated-partitions, --unavailable-partitions,
                              --under-min-isr-partitions, --at-min-isr-partitions
--create --topic NAME         with --if-not-exists, --partitions N, --replication-factor N, --config NAME=VALUE (repeated),
                              or --replica-assignment BROKER[:BROKER],...
--alter --topic REGEX         --partitions N: more partitions; with --if-exists, --replica-assignment
--delete --topic REGEX        with --if-exists
"""


class TopicError(Exception):
    """An error that Kafka's tool prints on stdout after its standard words; `exception` is the class of a broker's error."""

    def __init__(self, message: str, exception: str = "") -> None:
        super().__init__(message)
        self.exception = exception


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    if sum(options.has(verb) for verb in VERBS) != 1:
        raise CommandError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    target = target_of(tool, options)
    _check(options)
    try:
        if options.has("list"):
            print("\n".join(listed(target, options)))
        else:
            from pybroker.tools import topics_admin

            topics_admin.run(target, options)
    except TopicError as error:
        print(f"Error while executing topic command : {error}")
        if error.exception:
            print(f"ERROR {error.exception}: {error}", file=sys.stderr)
        return FAILED
    except ClientError as error:
        call = "createTopics" if options.has("create") else "listTopics"
        print(f"Error while executing topic command : Timed out waiting for a node assignment. Call: {call}")
        print(f"ERROR no broker can be reached: {error}", file=sys.stderr)
        return FAILED
    return 0


def listed(target: Target, options: Options) -> list[str]:
    """Return the names of the wanted topics, sorted. Raises ClientError and TopicError."""
    with target.connect() as connection:
        topics = metadata(connection).topics
    return wanted(topics, options.value("topic"), is_internal_left_out=options.has("exclude-internal"))


def wanted(topics: list[tuple[str, bool]], expression: str | None, *, is_internal_left_out: bool) -> list[str]:
    """Return the topics that a regular expression matches whole; a comma in it means or, as in Kafka's tool. Raises
    TopicError.
    """
    names = sorted(name for name, is_internal in topics if not (is_internal and is_internal_left_out))
    if expression is None:
        return names
    import re

    expression = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(expression)
    except re.error:
        raise TopicError(f"{expression} is an invalid regex.") from None
    return [name for name in names if pattern.fullmatch(name)]


def _check(options: Options) -> None:
    """Refuse options that exclude each other, and missing ones. Raises CommandError."""
    if not options.has("list", "describe"):
        options.require("topic")
    if options.has("alter"):
        options.require("partitions")
    if options.has("describe") and options.has("if-exists") and not options.has("topic", "topic-id"):
        raise CommandError("--topic or --topic-id is required to describe a topic")
    for name, verbs in _BELONGS.items():
        options.forbid(name, tuple(verb for verb in VERBS if verb not in verbs))
    options.forbid("delete-config", ("bootstrap-server", "zookeeper"))
    if options.has("create"):
        options.forbid("replica-assignment", ("partitions", "replication-factor"))
    for report in (*REPORTS, "topics-with-overrides"):
        options.forbid(report, tuple(other for other in (*REPORTS, "topics-with-overrides") if other != report))


_BELONGS = {
    "config": ("alter", "create"),
    "partitions": ("alter", "create"),
    "replication-factor": ("create",),
    "replica-assignment": ("alter", "create"),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    **dict.fromkeys((*REPORTS, "topics-with-overrides"), ("describe",)),
}
"""The verbs that each option may be used with."""
