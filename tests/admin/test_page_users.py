"""The page and its API know the users of the broker: each may do there what it may do as a client."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pybroker.admin.inner import Inner, frame_of, response_of
from pybroker.admin.logins import KEPT_S, Logins
from pybroker.admin.steps import Ask
from pybroker.broker.broker_server import BrokerServer
from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.config.load import load
from pybroker.config.setting import ConfigError
from pybroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pybroker.security.acl.binding import AclOperation, PatternType, PermissionType, ResourceType
from tests.admin.api import Api, Reply

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOKEN = "of-the-operator"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_alice="a:secret" user_bob="b-secret";',
    "pybroker.scram.users": "SCRAM-SHA-256=[name=carol,password=c-secret]",
    "authorizer.class.name": AUTHORIZERS[0],
    "super.users": "User:alice;User:carol",
    "pybroker.admin.listener": "http://127.0.0.1:0",
    "pybroker.admin.token": TOKEN,
}


class Page:
    """The API of a broker whose clients log in."""

    def __init__(self, broker: BrokerServer, inner: Inner) -> None:
        assert broker.lifecycle.admin_url is not None
        self._api, self._inner = Api(broker.lifecycle.admin_url), inner

    async def as_user(self, login: str, method: str, path: str, body: object = None) -> Reply:
        """Send a request with USER:PASSWORD."""
        return await self.send(f"Basic {base64.b64encode(login.encode()).decode()}", method, path, body)

    async def send(self, authorization: str | None, method: str, path: str, body: object = None) -> Reply:
        headers = {} if authorization is None else {"Authorization": authorization}
        reply: Reply = await self._api.of_loop(method, path, body, headers=headers)
        return reply

    async def allow(self, operation: AclOperation, resource: ResourceType, name: str) -> None:
        """Allow something to bob."""
        acl = AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:bob",
            host="127.0.0.1",
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        ask = Ask(CreateAclsRequest(creations=[acl]), 2)
        response = response_of(ask, await self._inner.handle(frame_of(ask)))
        assert [one.error_code for one in response.results] == [0]


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    broker = BrokerServer(load(overrides={"log.dirs": str(tmp_path), **SETTINGS}).config)
    bound = await broker.start()
    try:
        yield Page(broker, Inner(broker.dispatcher.handle, bound))
    finally:
        await broker.stop()


@pytest.mark.parametrize(
    "authorization",
    [None, "Basic", "Basic ?", "Basic Ym9i", "Basic " + base64.b64encode(b"bob:wrong").decode(),
     "Basic " + base64.b64encode(b"nobody:b-secret").decode(), "Basic " + base64.b64encode(b"\xff:x").decode(),
     "Basic " + base64.b64encode(b"carol:wrong").decode(), "Bearer wrong", f"Basic {TOKEN}"],
)  # fmt: skip
async def test_without_a_right_login_nothing_is_seen(
    page: Page, authorization: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    for path in ("/v1/topics", "/v1/cluster", "/metrics", "/v1/openapi.json"):
        reply = await page.send(authorization, "GET", path)
        assert (reply.status, [*reply.body]) == (401, ["error"])
    assert "secret" not in caplog.text
    assert (await page.send(authorization, "GET", "/livez")).status == 200, "health checks do not log in"


async def test_super_users_and_the_token_may_do_everything(page: Page) -> None:
    for number, authorization in enumerate(("alice:a:secret", "carol:c-secret")):
        assert (await page.as_user(authorization, "POST", "/v1/topics", {"name": f"t{number}"})).status == 201
        assert (await page.as_user(authorization, "GET", "/v1/cluster")).body["topic_count"] == number + 1
    assert (await page.send(f"Bearer {TOKEN}", "POST", "/v1/reset")).status == 200


async def test_another_user_may_do_what_acls_allow(page: Page) -> None:
    async def bob(method: str, path: str, body: object = None) -> Any:
        return (await page.as_user("bob:b-secret", method, path, body))[:2]

    record = {"records": [{"value": "1"}]}
    for name in ("orders", "hidden"):
        await page.as_user("alice:a:secret", "POST", "/v1/topics", {"name": name})
    assert await bob("GET", "/v1/topics") == (200, {"topics": []})
    for method, path, body in (
        ("GET", "/v1/topics/hidden", None),
        ("GET", "/v1/topics/hidden/records", None),
        ("POST", "/v1/topics/hidden/records", record),
        ("POST", "/v1/topics", {"name": "new"}),
        ("DELETE", "/v1/topics/hidden", None),
        ("GET", "/v1/cluster", None),
        ("GET", "/v1/clients", None),
        ("GET", "/v1/requests", None),
        ("GET", "/v1/faults", None),
        ("POST", "/v1/faults", {"api": "Produce", "drop": True}),
        ("DELETE", "/v1/faults", None),
        ("POST", "/v1/clock/advance", {"by": "1d"}),
        ("POST", "/v1/reset", None),
        ("GET", "/metrics", None),
    ):
        status, content = await bob(method, path, body)
        assert status == 403, (path, content)
        assert "AUTHORIZATION_FAILED" in content["error"]
    await page.allow(AclOperation.READ, ResourceType.TOPIC, "orders")
    await page.allow(AclOperation.WRITE, ResourceType.TOPIC, "orders")
    assert [one["name"] for one in (await bob("GET", "/v1/topics"))[1]["topics"]] == ["orders"]
    assert (await bob("POST", "/v1/topics/orders/records", record))[0] == 201
    assert [one["value"] for one in (await bob("GET", "/v1/topics/orders/records"))[1]["records"]] == ["1"]
    await page.allow(AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    assert (await bob("GET", "/v1/cluster"))[0] == 200
    assert (await bob("POST", "/v1/reset"))[0] == 403


def test_a_login_is_remembered_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    logins, proofs, now = Logins([]), [], [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(logins, "_proved", lambda user, _password: proofs.append(user) or user)
    header = f"Basic {base64.b64encode(b'bob:x').decode()}"
    for at_s, count in ((0, 1), (KEPT_S - 1, 1), (KEPT_S, 2)):
        now[0] = at_s
        assert logins.principal_of(header) == "User:bob"
        assert len(proofs) == count


def test_a_listener_without_any_possible_user_is_refused() -> None:
    settings = {"authorizer.class.name": AUTHORIZERS[0], "pybroker.admin.listener": "http://127.0.0.1:0"}
    with pytest.raises(ConfigError, match=r"needs pybroker\.admin\.token"):
        load(overrides=settings)
    assert json.dumps(load(overrides={**settings, "pybroker.admin.token": TOKEN}).config.admin_address)
