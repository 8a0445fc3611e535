"""kafka-configs: describes and alters settings of topics, brokers, loggers and client metrics, the quotas of users, clients and
addresses, and the SCRAM credentials of users, in the words of Kafka 3.9.

Source: kafka.admin.ConfigCommand.
"""

from __future__ import annotations

import sys

from pybroker.client.errors import ClientError
from pybroker.tools.errors import FAILED, CommandError
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, target_of

TYPES = ("topics", "clients", "users", "brokers", "ips", "broker-loggers", "client-metrics")
WITH_QUOTAS = ("clients", "users", "ips")
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

HELP = """This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip or client-metrics
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client
--describe                    the settings that were changed, or with --all all of them
--alter                       --add-config NAME=VALUE,NAME=[VALUE,VALUE] or --add-config-file FILE, --delete-config NAME,NAME
--entity-type TYPE            topics, brokers, broker-loggers, client-metrics, users, clients or ips
--entity-name NAME            the entity; --entity-default means the default of all brokers, users, clients or ips
--topic, --broker, --broker-logger, --user, --client, --ip NAME, --broker-defaults, --user-defaults, --client-defaults,
--ip-defaults: the same in one option
Users have quotas, such as producer_byte_rate=1048576, and credentials: SCRAM-SHA-256=[iterations=8192,password=PASSWORD]
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    kinds, names = _entities(options)
    _check_names(kinds, names, options)
    target = target_of(tool, options)
    from pybroker.tools import configs_admin, configs_users
    from pybroker.tools.admin import RefusedError
    from pybroker.tools.kafka_errors import exception_of

    kind, name, is_alter = kinds[0], names[0] if names else None, options.has("alter")
    try:
        if kind in WITH_QUOTAS and is_alter:
            configs_users.alter(target, kinds, names, options)
        elif kind in WITH_QUOTAS:
            configs_users.describe(target, kinds, names)
        elif is_alter:
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


def _entities(options: Options) -> tuple[list[str], list[str]]:
    """Return the types, and the names as far as there are some; an empty name means the default. Raises CommandError."""
    if options.has("describe") == options.has("alter"):
        raise CommandError("Command must include exactly one action: --describe, --alter")
    options.forbid("describe", ("add-config", "delete-config"))
    specific = [kind for option, kind in (*SHORT.items(), *DEFAULTS.items()) if options.has(option)]
    kinds = options.values("entity-type") + specific
    if repeated := [kind for index, kind in enumerate(kinds) if kind in kinds[:index]]:
        raise CommandError(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    for kind in kinds:
        if kind not in TYPES:
            raise CommandError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not kinds:
        raise CommandError("At least one entity type must be specified")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise CommandError("Only 'users' and 'clients' entity types may be specified together")
    if specific and options.has("entity-type", "entity-name", "entity-default"):
        raise CommandError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    names = [value or "" for option, value in options.given if option in ("entity-name", "entity-default")]
    names += [value for option in SHORT for value in options.values(option)]
    names += [""] * sum(options.has(option) for option in DEFAULTS)
    return kinds, names


def _check_names(kinds: list[str], names: list[str], options: Options) -> None:
    kind, given = kinds[0], [name for name in names if name]
    if kind in ("brokers", "broker-loggers", "ips"):
        is_valid, wanted = (_is_address, "IP or resolvable host") if kind == "ips" else (_is_integer, "integer broker id")
        for name in given:
            if not is_valid(name):
                raise CommandError(f"The entity name for {kind} must be a valid {wanted}, but it is: {name}")
    if options.has("describe") and kind == "broker-loggers" and not given:
        raise CommandError(f"an entity name must be specified with --describe of {kind}")
    if not options.has("alter"):
        return
    if kind in ("brokers", *WITH_QUOTAS):
        if not names:
            raise CommandError(
                "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not given:
        raise CommandError(f"an entity name must be specified with --alter of {kind}")
    if options.has("add-config") and options.has("add-config-file"):
        raise CommandError("Only one of --add-config or --add-config-file must be specified")
    if not options.has("add-config", "add-config-file", "delete-config"):
        raise CommandError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")


def _is_integer(name: str) -> bool:
    return name.lstrip("-").isdecimal()


def _is_address(name: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True
