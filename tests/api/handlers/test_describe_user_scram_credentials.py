"""DescribeUserScramCredentials finds none, as an Apache Kafka 3.9.2 without security."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from testing.scenes.api.whole import Whole
from tests.api.every_version import responses


async def test_no_user_has_a_credential(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    for everyone in (DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsRequest(users=[])):
        (response,) = await responses(whole, everyone)
        assert (response.error_code, response.results) == (0, [])
    named = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in ("bob", "al", "bob")])
    (response,) = await responses(whole, named)
    repeated = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    missing = "Attempt to describe a user credential that does not exist: al"
    assert [(one.user, one.error_code, one.error_message) for one in response.results] == [
        ("bob", ErrorCode.DUPLICATE_RESOURCE, repeated),
        ("al", ErrorCode.RESOURCE_NOT_FOUND, missing),
    ]
