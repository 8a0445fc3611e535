"""kafka-acls: creates, removes and lists ACLs.

Source: kafka.admin.AclCommand, AclEntry.
"""

from __future__ import annotations

from pybroker.client.errors import ClientError
from pybroker.security.acl.binding import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    word_of,
    words,
)
from pybroker.tools.admin import Admin, RefusedError, check
from pybroker.tools.errors import FAILED, CommandError
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import Target, client_properties

HELP = """Creates, removes and lists ACLs.
--bootstrap-server HOST:PORT        a broker of the cluster; --command-config FILE has settings of the client
--add, --remove or --list
--topic NAME, --group NAME, --transactional-id NAME, --delegation-token ID, --user-principal NAME, --cluster
                                    the resources, each as often as you like
--resource-pattern-type TYPE        literal, the default, or prefixed; to remove and to list also match and any
--operation NAME                    Read, Write, ...; by default All
--allow-principal, --deny-principal TYPE:NAME, and --allow-host, --deny-host ADDRESS
--producer [--idempotent], --consumer           what a producer, or a consumer, of the topics needs
--principal TYPE:NAME               list the ACLs of this principal
--force                             remove without a question
"""
LISTS = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
OPTIONS = {
    **dict.fromkeys(("bootstrap-server", "command-config", "resource-pattern-type", "operation", "principal", *LISTS), VALUE),
    **dict.fromkeys(("allow-principal", "deny-principal", "allow-host", "deny-host"), VALUE),
    **dict.fromkeys(("add", "remove", "list", "cluster", "producer", "consumer", "idempotent", "force"), FLAG),
}
ACTIONS = ("add", "remove", "list")
TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
SUPPORTED = {
    ResourceType.TOPIC: "Read, All, AlterConfigs, DescribeConfigs, Delete, Write, Alter, Create, Describe",
    ResourceType.GROUP: "Delete, Describe, Read, All",
    ResourceType.CLUSTER: "All, AlterConfigs, DescribeConfigs, IdempotentWrite, Alter, ClusterAction, Create, Describe",
    ResourceType.TRANSACTIONAL_ID: "Write, Describe, All",
    ResourceType.DELEGATION_TOKEN: "Describe, All",
    ResourceType.USER: "CreateTokens, DescribeTokens, All",
}
"""The operations on a type of resources, in an order that Kafka 3.9 has; of up to four it differs between runs."""
WITH_ROLES = ("operation", "deny-principal", "deny-host")
NO_RESOURCE = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token"
    " <Delegation Token ID>"
)
VERSION = 2
"""That of the requests; v3 adds a type of resources, which a broker that does not know it refuses in v2, too."""
USER_VERSION = 3

Entry = tuple[str, str, AclOperation, PermissionType]
"""A principal, a host, an operation and a permission."""
ByPattern = dict[ResourcePattern, list[Entry]]
"""ACLs by their resources."""


class _EntryError(Exception):
    """An ACL that cannot be; Kafka's tool fails when it makes it, after it has read the command line."""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, OPTIONS, arguments)
    _check(options)
    target = Target(options.value("bootstrap-server") or "", client_properties(options.value("command-config")))
    try:
        by_pattern = {} if options.has("list") else _by_pattern(options)
        with Admin(target) as admin:
            if options.has("add"):
                _add(admin, by_pattern)
            elif options.has("remove"):
                _remove(admin, by_pattern, is_forced=options.has("force"))
            else:
                _list(admin, options)
    except (ClientError, RefusedError, _EntryError) as error:
        print(f"Error while executing ACL command: {error}")
        return FAILED
    return 0


def _check(options: Options) -> None:
    options.require("bootstrap-server")
    if sum(options.has(one) for one in ACTIONS) != 1:
        raise CommandError("Command must include exactly one action: --list, --add, --remove. ")
    options.forbid("list", ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"))
    options.forbid("producer", WITH_ROLES)
    options.forbid("consumer", WITH_ROLES)
    if options.has("principal") and not options.has("list"):
        raise CommandError("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise CommandError("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise CommandError("The --idempotent option is only available if --producer is set")
    if options.has("consumer"):
        is_alone = not options.has("producer") and options.has("cluster", "transactional-id")
        if not options.has("topic") or not options.has("group") or is_alone:
            raise CommandError(
                "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be"
                " specified."
            )


def _pattern_type(options: Options) -> PatternType:
    text = options.value("resource-pattern-type")
    found = PatternType.__members__.get("LITERAL" if text is None else text.upper(), PatternType.UNKNOWN)
    if found is PatternType.UNKNOWN:
        raise CommandError(f"Unknown resource-pattern-type: {text}")
    return found


def _patterns(options: Options, *, is_required: bool = True) -> list[ResourcePattern]:
    """Return the resources that the options name. Raises CommandError."""
    pattern_type = _pattern_type(options)
    found = [ResourcePattern(TYPES[one], name.strip(), pattern_type) for one in LISTS for name in options.values(one)]
    if pattern_type is PatternType.LITERAL and options.has("cluster", "idempotent"):
        found.insert(len(options.values("topic")), CLUSTER)  # in Kafka's order: only the first error is printed
    if not found and is_required:
        raise CommandError(NO_RESOURCE)
    return list(dict.fromkeys(found))


def _entries(options: Options, operations: list[AclOperation]) -> list[Entry]:
    entries = []
    for kind, permission in (("allow", PermissionType.ALLOW), ("deny", PermissionType.DENY)):
        hosts = [host.strip() for host in options.values(f"{kind}-host")] or ["*"]
        for principal in options.values(f"{kind}-principal"):
            if ":" not in principal:
                raise CommandError(f"expected a string in format principalType:principalName but got {principal}")
            entries += [(principal.strip(), host, operation, permission) for operation in operations for host in hosts]
    if any(operation is AclOperation.ANY for _, _, operation, _ in entries):
        raise _EntryError("operation must not be ANY")
    return list(dict.fromkeys(entries))


def _by_pattern(options: Options) -> ByPattern:
    """Return the ACLs that the options mean. Raises CommandError, _EntryError."""
    pattern_type = _pattern_type(options)
    if options.has("add") and pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CommandError(f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls.")
    found = _of_roles(options) if options.has("producer", "consumer") else _of_operations(options)
    for pattern, entries in found.items():
        supported = SUPPORTED[pattern.resource_type]
        if not {words(operation) for _, _, operation, _ in entries}.issubset(supported.split(", ")):
            raise CommandError(f"ResourceType {pattern.resource_type.name} only supports operations {supported}")
    if options.has("add") and not all(found.values()):
        raise CommandError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    return found


def _of_operations(options: Options) -> ByPattern:
    operations = [_operation(text) for text in options.values("operation")] or [AclOperation.ALL]
    return dict.fromkeys(_patterns(options), _entries(options, operations))


def _of_roles(options: Options) -> ByPattern:
    patterns, found = _patterns(options), ByPattern()

    def add(kind: ResourceType, *operations: AclOperation) -> None:
        for one in patterns:
            if one.resource_type is kind:
                found[one] = list(dict.fromkeys([*found.get(one, []), *_entries(options, list(operations))]))

    if options.has("producer"):
        add(ResourceType.TOPIC, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
        add(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, AclOperation.DESCRIBE)
        if options.has("idempotent"):
            found[CLUSTER] = _entries(options, [AclOperation.IDEMPOTENT_WRITE])
    if options.has("consumer"):
        add(ResourceType.TOPIC, AclOperation.READ, AclOperation.DESCRIBE)
        add(ResourceType.GROUP, AclOperation.READ)
    return found


def _operation(text: str) -> AclOperation:
    """Return the operation with this name in any case, such as AlterConfigs; UNKNOWN if there is none."""
    by_word = {words(one).upper(): one for one in AclOperation}
    return by_word.get(text.strip().upper(), AclOperation.UNKNOWN)


def _add(admin: Admin, by_pattern: ByPattern) -> None:
    from pybroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest

    for pattern, entries in by_pattern.items():
        print(f"Adding ACLs for resource `{_shown(pattern)}`: \n {_lines(entries)} \n")
        creations = [
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for principal, host, operation, permission in entries
        ]
        for result in admin.ask(CreateAclsRequest(creations=creations), _version(pattern)).results:
            check(result.error_code, result.error_message)


def _remove(admin: Admin, by_pattern: ByPattern, *, is_forced: bool) -> None:
    from pybroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    for pattern, entries in by_pattern.items():
        if entries:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n from resource filter `{_shown(pattern)}`? (y/n)"
            )
        else:
            question = f"Are you sure you want to delete all ACLs for resource filter `{_shown(pattern)}`? (y/n)"
        if not is_forced and input(f"{question} `{_shown(pattern)}`? (y/n)\n").strip().lower() != "y":
            continue
        selected: list[tuple[str | None, str | None, int, int]] = [*entries]
        filters = [
            DeleteAclsFilter(
                resource_type_filter=pattern.resource_type,
                resource_name_filter=pattern.name,
                pattern_type_filter=pattern.pattern_type,
                principal_filter=principal,
                host_filter=host,
                operation=operation,
                permission_type=permission,
            )
            for principal, host, operation, permission in selected or [(None, None, AclOperation.ANY, PermissionType.ANY)]
        ]
        for result in admin.ask(DeleteAclsRequest(filters=filters), _version(pattern)).filter_results:
            check(result.error_code, result.error_message)


def _list(admin: Admin, options: Options) -> None:
    wanted = _patterns(options, is_required=False) or [ResourcePattern(ResourceType.ANY, "", PatternType.ANY)]
    found: dict[ResourcePattern, list[Entry]] = {}
    for pattern in wanted:
        for acl in _described(admin, pattern):
            entries = found.setdefault(acl.pattern, [])
            if acl[1:] not in entries:
                entries.append(acl[1:])
    principals = options.values("principal")
    shown_of: list[str | None] = [*principals] or [None]
    for principal in shown_of:
        if principal is not None:
            print(f"ACLs for principal `{principal}`")
        for pattern, entries in found.items():
            shown = [entry for entry in entries if principal in (None, entry[0])]
            if shown:
                print(f"Current ACLs for resource `{_shown(pattern)}`: \n {_lines(shown)} \n")


def _described(admin: Admin, pattern: ResourcePattern) -> list[Acl]:
    from pybroker.protocol.messages.describe_acls import DescribeAclsRequest

    is_any = pattern.resource_type is ResourceType.ANY
    request = DescribeAclsRequest(
        resource_type_filter=pattern.resource_type,
        resource_name_filter=None if is_any else pattern.name,
        pattern_type_filter=pattern.pattern_type,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=PermissionType.ANY,
    )
    response = admin.ask(request, USER_VERSION if is_any else _version(pattern))
    check(response.error_code, response.error_message)
    return [
        Acl(
            ResourcePattern(
                word_of(ResourceType, resource.resource_type), resource.resource_name, word_of(PatternType, resource.pattern_type)
            ),
            acl.principal,
            acl.host,
            word_of(AclOperation, acl.operation),
            word_of(PermissionType, acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
    ]


def _version(pattern: ResourcePattern) -> int:
    return USER_VERSION if pattern.resource_type is ResourceType.USER else VERSION


def _shown(pattern: ResourcePattern) -> str:
    resource_type, name, pattern_type = pattern
    return f"ResourcePattern(resourceType={resource_type.name}, name={name}, patternType={pattern_type.name})"


def _lines(entries: list[Entry]) -> str:
    return "\n".join(
        f"\t(principal={principal}, host={host}, operation={operation.name}, permissionType={permission.name})"
        for principal, host, operation, permission in entries
    )
