"""Requests, prints and changes the quotas of users, clients and addresses, and the SCRAM credentials of users.

Source: kafka.admin.ConfigCommand, QuotaConfigs.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.config.setting import java_double
from pybroker.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from pybroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from pybroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from pybroker.security.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from pybroker.security.sasl.scram_credentials import BY_NUMBER, ITERATIONS_MIN, MECHANISMS, SALT_BYTES
from pybroker.tools.admin import Admin, check
from pybroker.tools.configs_admin import changes_of
from pybroker.tools.errors import CommandError

if TYPE_CHECKING:
    from pybroker.tools.options import Options
    from pybroker.tools.target import Target

PARTS: Final = {"users": USER, "clients": CLIENT_ID, "ips": IP}
SHOWN: Final = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
USER_QUOTAS: Final = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
IP_QUOTAS: Final = frozenset({CONNECTION_CREATION_RATE})
EXACT, DEFAULT, ANY = 0, 1, 2
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_VERSION: Final = 1

Quotas = Mapping[str, float]
"""By their names."""


def _quotas(admin: Admin, kinds: Sequence[str], names: Sequence[str]) -> list[tuple[dict[str, str | None], Quotas]]:
    """Return the entities of these types with their quotas; a type without a name means all of that type, an empty name the
    default. Raises RefusedError, ClientError, CommandError.
    """
    if len(names) > len(kinds):
        raise CommandError("More entity names specified than entity types")
    components = []
    for kind, name in zip(kinds, [*names, *[None] * (len(kinds) - len(names))], strict=True):
        match_type = ANY if name is None else EXACT if name else DEFAULT
        components.append(ComponentData(entity_type=PARTS[kind], match_type=match_type, match=name or None))
    response = admin.ask(DescribeClientQuotasRequest(components=components, strict=True), _VERSION)
    check(response.error_code, response.error_message)
    return [
        ({one.entity_type: one.entity_name for one in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in response.entries or ()
    ]


# --- describe ---


def describe(target: Target, kinds: Sequence[str], names: Sequence[str]) -> None:
    """Print the quotas of entities, and the credentials of users. Raises RefusedError, ClientError, CommandError."""
    with Admin(target) as admin:
        lines = [_quota_line(parts, quotas) for parts, quotas in _quotas(admin, kinds, names)]
        if kinds[0] == "users" and len(kinds) == 1 and "" not in names:
            lines += _credential_lines(admin, names)
    for line in lines:
        print(line)


def _quota_line(parts: Mapping[str, str | None], quotas: Quotas) -> str:
    named = ((SHOWN[kind], parts[kind]) for kind in SHOWN if kind in parts)
    entity = ", ".join(f"the default {kind}" if name is None else f"{kind} '{name}'" for kind, name in named)
    values = ", ".join(f"{key}={java_double(value)}" for key, value in sorted(quotas.items()))
    return f"Quota configs for {entity} are {values}"


def _credential_lines(admin: Admin, names: Iterable[str]) -> list[str]:
    users = [UserName(name=name) for name in names] or None
    response = admin.ask(DescribeUserScramCredentialsRequest(users=users), 0)
    check(response.error_code, response.error_message)
    lines = []
    for result in response.results:
        if result.credential_infos:
            infos = ", ".join(f"{BY_NUMBER[one.mechanism].name}=iterations={one.iterations}" for one in result.credential_infos)
            lines.append(f"SCRAM credential configs for user-principal '{result.user}' are {infos}")
    return lines


# --- alter ---


def alter(target: Target, kinds: Sequence[str], names: Sequence[str], options: Options) -> None:
    """Change an entity. Raises RefusedError, ClientError, CommandError."""
    if len(kinds) != len(names):
        raise CommandError("An entity name must be specified for every entity type")
    added, deleted = changes_of(options)
    if _are_credentials(kinds, names, added, deleted):
        request: Any = _credentials_request(names[0], added, deleted)
    else:
        request = _quotas_request(kinds, names, added, deleted)
    with Admin(target) as admin:
        if isinstance(request, AlterUserScramCredentialsRequest):
            for result in admin.ask(request, 0).results:
                check(result.error_code, result.error_message)
        else:
            held = next((quotas for _, quotas in _quotas(admin, kinds, names)), {})
            if missing := [key for key in deleted if key not in held]:
                raise CommandError(f"Invalid config(s): {','.join(missing)}")
            for entry in admin.ask(request, _VERSION).entries:
                check(entry.error_code, entry.error_message)
    if names[0]:
        print(f"Completed updating config for {kinds[0][:-1]} {names[0]}.")
    else:
        print(f"Completed updating default config for {kinds[0]} in the cluster.")


def _are_credentials(kinds: Sequence[str], names: Sequence[str], added: Iterable[str], deleted: Iterable[str]) -> bool:
    """Return whether the changes are of credentials, not of quotas. Raises CommandError for both, and for other settings."""
    if kinds[0] == "ips":
        kind, what, known = "ips", "connection quota", IP_QUOTAS
    elif "clients" in kinds:
        kind, what, known = "clients", "quota", USER_QUOTAS
    else:
        kind, what, known = "users", "quota and SCRAM credential", USER_QUOTAS | MECHANISMS.keys()
    for verb, keys, collection in (("added", added, "Set"), ("deleted", deleted, "ArrayBuffer")):
        if unknown := [key for key in keys if key not in known]:
            shown = ",".join(unknown) if kind == "ips" else f"{collection}({', '.join(unknown)})"
            verb = "added" if kind == "ips" else verb
            only = f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server."
            raise CommandError(f"{only} Unexpected config names: {shown}")
    changed = {*added, *deleted}
    if not changed & MECHANISMS.keys():
        return False
    if "" in names:
        raise CommandError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
        )
    if changed & USER_QUOTAS:
        raise CommandError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    return True


def _credentials_request(user: str, added: Mapping[str, str], deleted: Iterable[str]) -> AlterUserScramCredentialsRequest:
    upsertions = []
    for name, text in added.items():
        mechanism, match = MECHANISMS[name], _CREDENTIAL.fullmatch(text)
        if match is None:
            raise CommandError(f"Invalid credential property {name.replace('-', '_')}={text}")
        iterations = ITERATIONS_MIN if match[1] in (None, "-1") else int(match[1] or 0)
        if iterations < ITERATIONS_MIN:
            raise CommandError(f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {name}")
        salt = secrets.token_bytes(SALT_BYTES)
        upsertions.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=mechanism.number,
                iterations=iterations,
                salt=salt,
                salted_password=mechanism.salted_password(match[2], salt, iterations),
            )
        )
    deletions = [ScramCredentialDeletion(name=user, mechanism=MECHANISMS[name].number) for name in deleted]
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def _quotas_request(
    kinds: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Iterable[str]
) -> AlterClientQuotasRequest:
    ops = []
    for key, text in added.items():
        try:
            ops.append(OpData(key=key, value=float(text), remove=False))
        except ValueError:
            raise CommandError(f"Cannot parse quota configuration value for {key}: {text}") from None
    ops += [OpData(key=key, value=0.0, remove=True) for key in deleted]
    entity = [EntityData(entity_type=PARTS[kind], entity_name=name or None) for kind, name in zip(kinds, names, strict=True)]
    return AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)], validate_only=False)
