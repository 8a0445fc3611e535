"""AlterUserScramCredentials changes what users log in with, and refuses what Kafka refuses."""

from __future__ import annotations

from pathlib import Path

from pybroker.metadata.scram_users import ScramUsers
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pybroker.security.sasl.scram_credentials import SHA_256, SHA_512, of_salted_password
from testing.scenes.api.whole import Whole

SALTED = b"s" * 32


def upsertion(name: str, mechanism: int = 1, iterations: int = 4_096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED)


def deletion(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


async def altered(
    whole: Whole, upsertions: list[ScramCredentialUpsertion], deletions: list[ScramCredentialDeletion] | None = None
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions or [])
    response = await whole.ask(request, 0)
    return {one.user: (one.error_code, one.error_message) for one in response.results}


async def described(whole: Whole) -> dict[str, list[tuple[int, int]]]:
    response = await whole.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    return {one.user: [(info.mechanism, info.iterations) for info in one.credential_infos] for one in response.results}


async def test_credentials_are_set_and_removed(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    known = ScramUsers(lambda: whole.controller.image)
    secret = known.secret()
    assert await altered(whole, [upsertion("a/b"), upsertion("c", 2, 16_384)]) == {"a/b": (0, None), "c": (0, None)}
    assert await described(whole) == {"a/b": [(1, 4_096)], "c": [(2, 16_384)]}
    assert known.credential(SHA_256, "a/b") == of_salted_password(SHA_256, SALTED, b"salt", 4_096)
    assert known.credential(SHA_512, "a/b") is None
    assert known.secret() != secret, "it is that of the cluster, made with the first user"
    await altered(whole, [upsertion("a/b", 2)])
    assert await altered(whole, [], [deletion("a/b"), deletion("c", 2)]) == {"a/b": (0, None), "c": (0, None)}
    assert await described(whole) == {"a/b": [(2, 4_096)]}


async def test_each_user_has_its_error_and_others_are_changed(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await altered(whole, [upsertion("old")])
    results = await altered(
        whole,
        [
            upsertion(""), upsertion("unknown", 3), upsertion("few", 1, 4_095), upsertion("many", 1, 16_385), upsertion("good"),
            upsertion("twice", 1), upsertion("twice", 2), upsertion("old", 2),
        ],
        [deletion("missing"), deletion("old")],
    )  # fmt: skip
    twice = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    assert results == {
        "": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        "unknown": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "few": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "many": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        "missing": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        "twice": twice,
        "old": twice,
        "good": (ErrorCode.NONE, None),
    }
    assert await described(whole) == {"old": [(1, 4_096)], "good": [(1, 4_096)]}
