"""AlterUserScramCredentials (key 51): set and remove what users log in with by SCRAM (KIP-554)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name: str = field()
    mechanism: Int8 = field()  # as in DescribeUserScramCredentials


class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name: str = field()
    mechanism: Int8 = field()
    iterations: Int32 = field()
    salt: bytes = field()
    salted_password: bytes = field()


class AlterUserScramCredentialsRequest(Request, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"):
    """Credentials to change."""

    deletions: list[ScramCredentialDeletion] = field()
    upsertions: list[ScramCredentialUpsertion] = field()


class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: str = field()
    error_code: Int16 = field()
    error_message: str | None = field()


class AlterUserScramCredentialsResponse(Response, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"):
    """One result per user."""

    throttle_time_ms: Int32 = field()
    results: list[AlterUserScramCredentialsResult] = field()
