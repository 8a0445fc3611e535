"""kafka-delegation-tokens: creates, renews, expires and describes delegation tokens, in the words of Kafka 3.9.

Source: org.apache.kafka.tools.DelegationTokenCommand.
"""

from __future__ import annotations

import base64
import binascii
import time

from pybroker.client.errors import ClientError
from pybroker.tools.errors import CommandError
from pybroker.tools.options import FLAG, VALUE, Options, parse
from pybroker.tools.target import OPTIONS, target_of

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.tools.admin import Admin

ACTIONS = ("create", "renew", "expire", "describe")
VALUES = (
    "owner-principal", "renewer-principal", "max-life-time-period", "renew-time-period", "expiry-time-period", "hmac",
)  # fmt: skip
KINDS = {**OPTIONS, **dict.fromkeys(ACTIONS, FLAG), **dict.fromkeys(VALUES, VALUE)}
REQUIRED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
FORBIDDEN = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
COLUMNS = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"

HELP = """This tool helps to create, renew, expire, or describe delegation tokens.
--bootstrap-server HOST:PORT  the brokers to connect to
--command-config FILE         a properties file with settings of the client, which must log in, or have a certificate
--create                      --max-life-time-period MS (-1: the broker's), --renewer-principal TYPE:NAME,
                              --owner-principal TYPE:NAME
--renew                       --hmac HMAC --renew-time-period MS (-1: the broker's)
--expire                      --hmac HMAC --expiry-time-period MS (-1: at once)
--describe                    --owner-principal TYPE:NAME, as owner, requester or renewer
"""


def main(tool: str, arguments: list[str]) -> int:
    """Run the command and return the exit code. Raises CommandError."""
    options = parse(tool, KINDS, arguments)
    actions = [action for action in ACTIONS if options.has(action)]
    if len(actions) != 1:
        raise CommandError("Command must include exactly one action: --create, --renew, --expire or --describe")
    options.require("command-config", *REQUIRED[actions[0]])
    options.forbid(actions[0], FORBIDDEN[actions[0]])
    target = target_of(tool, options, is_required=False)
    from pybroker.tools.admin import Admin, RefusedError
    from pybroker.tools.kafka_errors import exception_of

    try:
        with Admin(target) as admin:
            {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[actions[0]](admin, options)
    except RefusedError as error:
        raise CommandError(f"{exception_of(error.code)}: {error}") from error
    except ClientError as error:
        raise CommandError(
            f"org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment: {error}"
        ) from error
    return 0


def _create(admin: Admin, options: Options) -> None:
    from pybroker.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
    from pybroker.tools.admin import check

    renewers, owners = _principals(options, "renewer-principal"), _principals(options, "owner-principal")
    lifetime_ms = _number(options, "max-life-time-period")
    print(f"Calling create token operation with renewers :{_shown(renewers)} , max-life-time-period :{lifetime_ms}")
    request = CreateDelegationTokenRequest(
        owner_principal_type=owners[0][0] if owners else None,
        owner_principal_name=owners[0][1] if owners else None,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    response = admin.ask(request, 3)
    check(response.error_code)
    print(f"Created delegation token with tokenId : {response.token_id}")
    times = (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)
    _print_tokens([(response, renewers, times)])


def _renew(admin: Admin, options: Options) -> None:
    from pybroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

    hmac, period_ms = options.value("hmac") or "", _number(options, "renew-time-period")
    print(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period_ms}")
    _change(admin, RenewDelegationTokenRequest(hmac=_bytes_of(hmac), renew_period_ms=period_ms), "renew")


def _expire(admin: Admin, options: Options) -> None:
    from pybroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest

    hmac, period_ms = options.value("hmac") or "", _number(options, "expiry-time-period")
    print(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period_ms}")
    _change(admin, ExpireDelegationTokenRequest(hmac=_bytes_of(hmac), expiry_time_period_ms=period_ms), "expire")


def _change(admin: Admin, request: object, verb: str) -> None:
    from pybroker.tools.admin import check

    response = admin.ask(request, 2)
    check(response.error_code)
    print(f"Completed {verb} operation. New expiry date : {_time(response.expiry_timestamp_ms)}", end="")


def _describe(admin: Admin, options: Options) -> None:
    from pybroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
    from pybroker.tools.admin import check

    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: {_shown(owners)}")
    else:
        print("Calling describe token operation for current user.")
    listed = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
    response = admin.ask(DescribeDelegationTokenRequest(owners=listed), 3)
    check(response.error_code)
    print(f"Total number of tokens : {len(response.tokens)}", end="")
    _print_tokens([
        (
            token,
            [(one.principal_type, one.principal_name) for one in token.renewers],
            (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp),
        )
        for token in response.tokens
    ])  # fmt: skip


def _print_tokens(tokens: Sequence[tuple[object, Sequence[tuple[str, str]], tuple[int, int, int]]]) -> None:
    """Print a table of tokens with their renewers, and the times of their issue, their expiry and their end."""
    heads = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
    print("\n" + COLUMNS.format(*heads))
    token: object
    for token, renewers, times in tokens:
        owner, requester = (
            f"{getattr(token, f'{prefix}principal_type')}:{getattr(token, f'{prefix}principal_name')}"
            for prefix in ("", "token_requester_")
        )
        hmac = base64.b64encode(token.hmac).decode()  # type: ignore[attr-defined]  # of two classes
        row = (token.token_id, hmac, owner, requester, _shown(renewers), *map(_time, times))  # type: ignore[attr-defined]
        print("\n" + COLUMNS.format(*row))


def _principals(options: Options, name: str) -> list[tuple[str, str]]:
    found = []
    for text in options.values(name):
        kind, colon, principal = text.strip().partition(":")
        if not colon or not kind:
            raise CommandError(f"expected a string in format principalType:principalName but got {text.strip()}")
        found.append((kind, principal))
    return found


def _shown(principals: Sequence[tuple[str, str]]) -> str:
    return f"[{', '.join(f'{kind}:{name}' for kind, name in principals)}]"


def _number(options: Options, name: str) -> int:
    found = options.number(name, is_long=True)
    if found is None:
        raise CommandError(f"Option {name} requires an argument")
    return found


def _bytes_of(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error:
        raise CommandError(f"--hmac {hmac} is not base64") from None


def _time(at_ms: int) -> str:
    """Format a time as Kafka's tool does, in the zone of the machine."""
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(at_ms / 1000))
