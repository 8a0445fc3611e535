"""The API over HTTP: what is refused, and how; the rules of faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import pytest

from pybroker.admin.elsewhere import Elsewhere
from pybroker.admin.guards import BODY_BYTES_MAX
from pybroker.admin.inner import Inner
from pybroker.admin.route import Route
from pybroker.admin.routes import ROUTES
from pybroker.admin.server import AdminServer
from pybroker.admin.subject import BrokerState, Parts, Subject
from pybroker.api.seen_clients import SeenClient
from pybroker.faults.faults import Faults
from pybroker.model import BrokerId
from pybroker.network.limits import BoundListener
from pybroker.security.acl.binding import AclOperation
from pybroker.times.clock import BrokerClock
from tests.admin.api import Api

if TYPE_CHECKING:
    from pybroker.api.context import Services

RULE = {"name": "leader moves", "api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
TOKEN = "t0ken"
BOUND = BoundListener(name="PLAINTEXT", host="127.0.0.1", port=9092)


class NoClients:
    async def seen(self) -> list[SeenClient]:
        return []

    def clear(self) -> None: ...


async def everything(_principal: str, _host: str, _operation: AclOperation) -> bool:
    return True


async def no_state() -> BrokerState:
    return BrokerState((), 0, 0, 0, None, 0)


@asynccontextmanager
async def serving(
    token: str | None = None, *, is_open: bool = True, reason: str | None = None, has_failed: bool = False
) -> AsyncIterator[Api]:
    subject = Subject(loop=asyncio.get_running_loop(), why_not_ready=lambda: reason)
    server = AdminServer(subject, token)
    port = server.start("127.0.0.1", 0)
    if is_open:
        clock, inner = BrokerClock(None), Inner(lambda _connection, _frame: b"", [BOUND])
        parts = Parts(
            faults=Faults(),
            trail=None,
            clock=clock,
            inner=inner,
            elsewhere=Elsewhere(services=cast("Services", None), listener="PLAINTEXT", tls=None, login=None),
            node_id=BrokerId(1),
            is_alone=True,
            clients=NoClients(),
            may=everything,
            state=no_state,
            has_failed_directory=lambda: has_failed,
        )
        server.open(parts)
    try:
        yield Api(f"http://127.0.0.1:{port}", token)
    finally:
        server.stop()


async def test_rules_are_added_listed_and_removed() -> None:
    async with serving() as api:
        status, rule, _ = await api.of_loop("POST", "/v1/faults", RULE)
        assert (status, rule) == (201, {**RULE, "seen": 0, "count": 0})
        assert (await api.of_loop("GET", "/v1/faults")).body == {"faults": [rule]}
        assert (await api.of_loop("GET", "/v1/faults/leader%20moves")).body == rule
        assert (await api.of_loop("DELETE", "/v1/faults/leader%20moves"))[:2] == (200, rule)
        assert (await api.of_loop("GET", "/v1/faults/leader%20moves")).status == 404
        unnamed = (await api.of_loop("POST", "/v1/faults", {"api": "Fetch", "version": [0, 3], "delay_s": 1})).body
        assert unnamed["version"] == [0, 3]
        assert (await api.of_loop("DELETE", "/v1/faults")).body == {"faults": [unnamed]}
        assert (await api.of_loop("GET", "/v1/faults")).body == {"faults": []}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"api": "Produce"}, 400, "exactly one of"),
        ({"api": "Produce", "erorr": "X"}, 400, "no field erorr"),
        ({"api": "Produce", "error": 7}, 400, "error=7: it must be str"),
        ({"api": "Nothing", "drop": True}, 400, "no API that is served"),
        (RULE, 409, "another rule has this name"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_with_its_reason(body: object, status: int, text: str) -> None:
    async with serving() as api:
        await api.of_loop("POST", "/v1/faults", RULE)
        reply = await api.of_loop("POST", "/v1/faults", body)
        assert reply.status == status
        assert text in reply.error


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b" " * (BODY_BYTES_MAX + 1), 413, "longer than"),
    ],
)
async def test_a_body_that_is_no_object_is_refused(data: bytes, status: int, text: str) -> None:
    async with serving() as api:
        reply = await api.of_loop("POST", "/v1/faults", data=data)
        assert reply.status == status
        assert text in reply.error


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 404),
        ("GET", "/v1/", 404),
        ("GET", "/v1/faults/", 404),
        ("GET", "/v1/faults/a/b", 404),
        ("GET", "/v1/../v1/faults", 404),
        ("PATCH", "/v1/faults", 405),
    ],
)
async def test_what_is_not_there_is_an_error_in_json(method: str, path: str, status: int) -> None:
    async with serving() as api:
        reply = await api.of_loop(method, path)
        assert reply.status == status
        assert reply.error
        assert (status == 405) == (reply.headers.get("Allow") == "GET, POST, DELETE")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost"}, 200),
        ({"Host": "localhost:80", "Origin": "http://localhost:80"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "rebound.example:8080"}, 403),
        ({"Host": "rebound.example:8080", "Origin": "http://rebound.example:8080"}, 403),
        ({"Host": "localhost.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://site.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:80", "Origin": "http://localhost:81"}, 403),
    ],
)
async def test_a_page_of_another_site_reaches_nothing(headers: dict[str, str], status: int) -> None:
    async with serving() as api:
        reply = await api.of_loop("GET", "/v1/faults", headers=headers)
        assert reply.status == status
        assert status == 200 or reply.error


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_an_unknown_parameter_is_refused(route: Route) -> None:
    async with serving() as api:
        status, body, _ = await api.of_loop(route.method, f"{route.path}?clientid=shop&limit=1", {} if route.body else None)
    assert status == 400
    assert "has no parameter clientid" in body["error"]


async def test_a_parameter_that_is_there_twice_is_refused() -> None:
    async with serving() as api:
        status, body, _ = await api.of_loop("GET", "/v1/requests?api=Produce&api=Fetch")
    assert (status, body["error"]) == (400, "a parameter is there twice")


async def test_a_broker_whose_disk_has_failed_refuses_the_reset_that_would_leave_it_so() -> None:
    async with serving(has_failed=True) as api:
        status, body, _ = await api.of_loop("POST", "/v1/reset")
    assert (status, "next start" in body["error"]) == (409, True)


async def test_a_form_cannot_send_a_body() -> None:
    async with serving() as api:
        reply = await api.of_loop("POST", "/v1/faults", RULE, headers={"Content-Type": "text/plain"})
        assert reply.status == 415
        assert (await api.of_loop("GET", "/v1/faults")).body == {"faults": []}


@pytest.mark.parametrize("path", ["/v1/faults", "/v1/openapi.json", "/nothing"])
@pytest.mark.parametrize("authorization", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer t\xf6ken"])
async def test_each_request_needs_the_token(path: str, authorization: str | None, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(TOKEN) as api:
        headers = {} if authorization is None else {"Authorization": authorization}
        reply = await Api(api.url).of_loop("GET", path, headers=headers)
        assert reply.status == 401
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        assert TOKEN not in reply.error
        assert (await api.of_loop("GET", path)).status in {200, 404}
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
async def test_a_health_check_needs_no_token(path: str) -> None:
    async with serving(TOKEN) as api:
        assert (await Api(api.url).of_loop("GET", path))[:2] == (200, {"status": "ok"})
        assert (await Api(api.url).of_loop("POST", path)).status == 405


async def test_until_the_broker_serves_clients_there_is_its_state_alone() -> None:
    async with serving(is_open=False, reason="starting") as api:
        assert (await api.of_loop("GET", "/livez"))[:2] == (200, {"status": "ok"})
        assert (await api.of_loop("GET", "/readyz"))[:2] == (503, {"error": "starting"})
        assert (await api.of_loop("GET", "/v1/faults"))[:2] == (503, {"error": "The broker is not ready: starting"})
    async with serving() as api:
        assert (await api.of_loop("GET", "/readyz"))[:2] == (200, {"status": "ok"})


async def test_a_bug_is_an_error_in_json_and_a_trace_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Faults, "clear", lambda _self: 1 // 0)
    async with serving() as api:
        assert (await api.of_loop("DELETE", "/v1/faults")).status == 500
        assert (await api.of_loop("GET", "/v1/faults")).status == 200
    assert "because of a bug" in caplog.text
    assert "ZeroDivisionError" in caplog.text
