"""kafka-consumer-groups: lists, describes and deletes groups and resets their offsets, in the words of Kafka 3.9.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand, ConsumerGroupCommandOptions.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pybroker.client.errors import ClientError
from pybroker.tools.errors import CommandError
from pybroker.tools.options import FLAG, MAYBE, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, Target, target_of

if TYPE_CHECKING:
    from pybroker.tools.groups_admin import Groups

VERBS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS = ("to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file")
STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable")
TYPES = ("Consumer", "Classic")
TIMEOUT_MS = 5000

KINDS = {
    **OPTIONS,
    **dict.fromkeys((*VERBS, "all-groups", "all-topics", "dry-run", "execute", "export", "members", "verbose", "offsets"), FLAG),
    **dict.fromkeys(("to-earliest", "to-latest", "to-current", "new-consumer"), FLAG),
    **dict.fromkeys(("group", "topic", "timeout", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"), VALUE),
    **dict.fromkeys(("state", "type"), MAYBE),
}

HELP = """This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset offsets.
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client
--list                        all groups; --state [STATES] and --type [TYPES] add a column, or select groups
--describe                    --group NAME (repeated) or --all-groups: offsets, or --members [--verbose], or --state
--delete                      --group NAME or --all-groups
--delete-offsets              --group NAME --topic TOPIC[:PARTITION,...]
--reset-offsets               --group NAME or --all-groups; --topic TOPIC[:PARTITION,...] or --all-topics;
                              --to-earliest, --to-latest, --to-current, --to-offset N, --shift-by N, --to-datetime TIME,
                              --by-duration DURATION or --from-file FILE; --dry-run, --execute, --export
--timeout MS                  how long to wait for a coordinator
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    target = target_of(tool, options, is_required=False)
    _check(options)
    from pybroker.tools import groups_admin, groups_describe, groups_reset
    from pybroker.tools.admin import RefusedError
    from pybroker.tools.kafka_errors import exception_of

    try:
        with groups_admin.Groups(
            _patient(target, options), (options.number("timeout", is_long=True) or TIMEOUT_MS) / 1000
        ) as groups:
            if options.has("list"):
                groups_describe.print_list(groups, options, states(options), types(options))
            elif options.has("describe"):
                groups_describe.print_described(groups, _ids(groups, options), options)
            elif options.has("delete"):
                groups_describe.print_deleted(groups, _ids(groups, options))
            elif options.has("delete-offsets"):
                groups_reset.print_deleted_offsets(groups, options)
            else:
                groups_reset.print_reset(groups, _ids(groups, options), options)
    except RefusedError as error:
        reason = f"java.util.concurrent.ExecutionException: {exception_of(error.code)}: {error}"
        print(f"\nError: Executing consumer group command failed due to {reason}")
    except ClientError as error:
        reason = "errors.TimeoutException: Timed out waiting for a node assignment."
        if options.has("list", "all-groups"):
            reason = "KafkaException: Failed to find brokers to send ListGroups"
        print(
            "\nError: Executing consumer group command failed due to java.util.concurrent.ExecutionException: "
            f"org.apache.kafka.common.{reason}"
        )
        print(f"ERROR no broker can be reached: {error}", file=sys.stderr)
    return 0  # as in Kafka's tool, which has 1 only for a wrong command line


def _patient(target: Target, options: Options) -> Target:
    """Return a target that waits as long as --timeout, unless the client's settings have a time."""
    target.properties.setdefault("default.api.timeout.ms", str(options.number("timeout", is_long=True) or TIMEOUT_MS))
    return target


def _ids(groups: Groups, options: Options) -> list[str]:
    return (
        [one.group_id for one in groups.listed()] if options.has("all-groups") else list(dict.fromkeys(options.values("group")))
    )


def states(options: Options) -> list[str]:
    """Return the states of --state, in Kafka's spelling. Raises CommandError."""
    return _spelt(options.value("state"), STATES, "Invalid state list '{}'. Valid states are: {}")


def types(options: Options) -> list[str]:
    """Return the types of --type, in Kafka's spelling. Raises CommandError."""
    return _spelt(options.value("type"), TYPES, "Invalid types list '{}'. Valid types are: {}")


def _spelt(text: str | None, known: tuple[str, ...], complaint: str) -> list[str]:
    if not text:
        return []
    spelt = {one.lower(): one for one in known}
    found = [spelt.get(part.strip().lower()) for part in text.split(",")]
    if None in found:
        raise CommandError(complaint.format(text, ", ".join(known)))
    return [one for one in found if one is not None]


def _check(options: Options) -> None:
    """Refuse options that exclude each other, and missing ones. Raises CommandError."""
    if sum(options.has(verb) for verb in VERBS) != 1:
        raise CommandError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"
        )
    verb = next(verb for verb in VERBS if options.has(verb))
    if verb != "list" and not options.has("group", *(("all-groups",) if verb != "delete-offsets" else ())):
        scope = "[group], [topic]" if verb == "delete-offsets" else "[group], [all-groups]"
        raise CommandError(f"Option [{verb}] takes one of these options: {scope}")
    if verb == "delete-offsets" and not options.has("topic"):
        raise CommandError(f"Option [{verb}] takes the following options: [group], [topic]")
    if verb == "describe" and sum(options.has(one) for one in ("members", "offsets", "state")) > 1:
        raise CommandError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if verb == "describe" and options.value("state") is not None:
        raise CommandError("Option [describe] does not take a value for [state]")
    if verb == "delete" and options.has("topic"):
        raise CommandError("The consumer does not support topic-specific offset deletion from a consumer group.")
    for option, verbs in _BELONGS.items():
        if options.has(option) and verb not in verbs:
            raise CommandError(f"Option(s) [{option}] are unavailable given other options on the command line")
    options.forbid("group", ("all-groups", "list"))
    options.forbid("topic", ("list", "describe"))
    if verb == "reset-offsets":
        _check_reset(options)


def _check_reset(options: Options) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise CommandError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.has("dry-run", "execute"):
        print(
            "WARN: No action will be performed as the --execute option is missing."
            "In a future major release, the default behavior of this command will be to prompt the user before "
            "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly "
            "if you are scripting this command and want to keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    for scenario in SCENARIOS:
        options.forbid(scenario, tuple(other for other in SCENARIOS if other != scenario))


_BELONGS = {
    "members": ("describe",),
    "verbose": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
