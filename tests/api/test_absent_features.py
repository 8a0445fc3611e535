"""The APIs of features that are off: their responses are those of an Apache Kafka 3.9.2 without security."""

from __future__ import annotations

from pathlib import Path

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import create_acls, delete_acls
from pybroker.protocol.messages import create_delegation_token as token
from pybroker.protocol.messages.describe_acls import DescribeAclsRequest
from pybroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from pybroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pybroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from testing.scenes.api.whole import Whole
from tests.api.every_version import responses

NO_AUTHORIZER = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


async def test_there_are_no_rules_of_access(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    for response in await responses(whole, DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)):
        error = (response.error_code, response.error_message)
        assert error == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        assert response.resources == []
    created = create_acls.CreateAclsRequest(creations=[create_acls.AclCreation(resource_name=name) for name in "ab"])
    for response in await responses(whole, created):
        assert [(one.error_code, one.error_message) for one in response.results] == [NO_AUTHORIZER] * 2
    deleted = delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter() for _ in range(3)])
    for response in await responses(whole, deleted):
        assert [(one.error_code, one.error_message) for one in response.filter_results] == [NO_AUTHORIZER] * 3
        assert all(one.matching_acls == [] for one in response.filter_results)


async def test_a_client_that_has_not_logged_in_gets_no_token(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    renewers = [token.CreatableRenewers(principal_type="User", principal_name="r")]
    for response in await responses(whole, token.CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)):
        times = (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)
        assert (response.error_code, response.token_id, response.hmac, times) == (code, "", b"", (-1, -1, -1))
    for request in (RenewDelegationTokenRequest(hmac=b"t"), ExpireDelegationTokenRequest(hmac=b"t")):
        for response in await responses(whole, request):
            assert (response.error_code, response.expiry_timestamp_ms) == (code, -1)
    for owners in (None, [], [DescribeDelegationTokenOwner(principal_type="User", principal_name="o")]):
        for response in await responses(whole, DescribeDelegationTokenRequest(owners=owners)):
            assert (response.error_code, response.tokens) == (code, [])
