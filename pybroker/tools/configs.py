"""kafka-configs: describes and alters settings of topics, brokers, loggers and client metrics, in the words of Kafka 3.9.

Source: kafka.admin.ConfigCommand.
"""

from __future__ import annotations

import sys

from pybroker.client.errors import ClientError
from pybroker.tools.errors import FAILED, NOT_SUPPORTED, CommandError
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, target_of

TYPES = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics")
NOT_SERVED = ("clients", "users", "ips")
SHORT = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
}
DEFAULTS = {"client-defaults": "clients", "user-defaults": "users", "broker-defaults": "brokers", "ip-defaults": "ips"}

KINDS = {
    **OPTIONS,
    **dict.fromkeys(("describe", "alter", "all", "entity-default", "force", *DEFAULTS), FLAG),
    **dict.fromkeys(("entity-type", "entity-name", "add-config", "add-config-file", "delete-config", *SHORT), VALUE),
}

HELP = """This tool helps to manipulate and describe entity config for a topic, broker, broker logger or client metrics.
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client
--describe                    the settings that were changed, or with --all all of them
--alter                       --add-config NAME=VALUE,NAME=[VALUE,VALUE] or --add-config-file FILE, --delete-config NAME,NAME
--entity-type TYPE            topics, brokers, broker-loggers or client-metrics
--entity-name NAME            the entity; --entity-default means the default of all brokers
--topic, --broker, --broker-logger NAME, --broker-defaults: the same in one option
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    kind, name = _entity(tool, options)
    target = target_of(tool, options)
    from pybroker.tools import configs_admin
    from pybroker.tools.admin import RefusedError
    from pybroker.tools.kafka_errors import exception_of

    try:
        if options.has("alter"):
            configs_admin.alter(target, kind, name or "", options)
        else:
            configs_admin.describe(target, kind, name, is_all=options.has("all"))
    except RefusedError as error:
        reason = f"{exception_of(error.code)}: {error}"
        _failed(arguments, f"java.util.concurrent.ExecutionException: {reason}")
        return FAILED
    except ClientError as error:
        _failed(arguments, f"org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment: {error}")
        return FAILED
    return 0


def _failed(arguments: list[str], reason: str) -> None:
    print(f"Error while executing config command with args '{' '.join(arguments)}'\n{reason}", file=sys.stderr)


def _entity(tool: str, options: Options) -> tuple[str, str | None]:
    """Return type and name; the name is empty for the defaults of all, None for each of them. Raises CommandError."""
    if options.has("describe") == options.has("alter"):
        raise CommandError("Command must include exactly one action: --describe, --alter")
    options.forbid("describe", ("add-config", "delete-config"))
    specific = [kind for option, kind in (SHORT | DEFAULTS).items() if options.has(option)]
    kinds = options.values("entity-type") + specific
    for kind in kinds:
        if kind not in TYPES:
            raise CommandError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not kinds:
        raise CommandError("At least one entity type must be specified")
    if specific and options.has("entity-type", "entity-name", "entity-default"):
        raise CommandError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    refused = [kind for kind in kinds if kind in NOT_SERVED]
    if refused:
        raise CommandError(
            f"{tool}: --entity-type {refused[0]} is not supported: there are no quotas and no users", NOT_SUPPORTED
        )
    if len(kinds) > 1:
        raise CommandError("Only 'users' and 'clients' entity types may be specified together")
    names = options.values("entity-name") + [value for option in SHORT for value in options.values(option)]
    names += [""] * (options.has("entity-default") + options.has(*DEFAULTS))
    name = names[0] if names else None
    _check_name(kinds[0], name, options)
    return kinds[0], name


def _check_name(kind: str, name: str | None, options: Options) -> None:
    if kind in ("brokers", "broker-loggers") and name and not name.lstrip("-").isdecimal():
        raise CommandError(f"The entity name for {kind} must be a valid integer broker id, but it is: {name}")
    if options.has("describe") and kind == "broker-loggers" and not name:
        raise CommandError(f"an entity name must be specified with --describe of {kind}")
    if not options.has("alter"):
        return
    if kind == "brokers" and name is None:
        raise CommandError("an entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
    if kind != "brokers" and not name:
        raise CommandError(f"an entity name must be specified with --alter of {kind}")
    if options.has("add-config") and options.has("add-config-file"):
        raise CommandError("Only one of --add-config or --add-config-file must be specified")
    if not options.has("add-config", "add-config-file", "delete-config"):
        raise CommandError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
