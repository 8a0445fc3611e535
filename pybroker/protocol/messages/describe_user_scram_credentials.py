"""DescribeUserScramCredentials (key 50): which users may log in by SCRAM (KIP-554)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32


class UserName(Struct):
    """A user."""

    name: str = field()


class DescribeUserScramCredentialsRequest(Request, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"):
    """Users to describe."""

    users: list[UserName] | None = field()  # null or empty: all


class CredentialInfo(Struct):
    """A credential, without what is secret."""

    mechanism: Int8 = field()  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: Int32 = field()


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    credential_infos: list[CredentialInfo] = field()


class DescribeUserScramCredentialsResponse(Response, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"):
    """One result per user."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[DescribeUserScramCredentialsResult] = field()
