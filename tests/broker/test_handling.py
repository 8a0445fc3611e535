"""Requests go to the dispatcher itself, unless a file of faults is asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pybroker.broker.handling import faults_of, handler_of, trail_of
from pybroker.config.broker import BrokerConfig
from pybroker.log.files.filesystem import Filesystem
from pybroker.network.context import ConnectionContext
from pybroker.protocol.messages.heartbeat import HeartbeatRequest
from testing.scenes.api.whole import frame_of

CONTROLLER = SimpleNamespace(image=SimpleNamespace(topics_by_id={}))
BROKER: Any = SimpleNamespace(
    services=SimpleNamespace(controller=CONTROLLER), filesystem=Filesystem(), log_manager=None, see_room=None
)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def dispatcher(_connection: ConnectionContext, _frame: memoryview) -> bytes:
    return b"response"


def test_a_broker_without_rules_pays_nothing_for_them() -> None:
    config = BrokerConfig(log_dirs=("data",))
    assert handler_of(dispatcher, BROKER, faults_of(config), trail_of(config)) is dispatcher


async def test_a_listener_brings_a_trail_unless_it_keeps_no_requests() -> None:
    config = BrokerConfig(log_dirs=("data",), pybroker_admin_listener="http://127.0.0.1:0", pybroker_admin_requests=2)
    trail = trail_of(config)
    assert trail is not None
    handle = handler_of(dispatcher, BROKER, faults_of(config), trail)
    for number in range(3):
        assert handle(ConnectionContext(connection_id=number), frame_of(HEARTBEAT, 3)) == b"response"
    assert [one.connection for one in trail.all()] == [1, 2]
    assert trail_of(config.model_copy(update={"pybroker_admin_requests": 0})) is None


async def test_a_broker_with_a_file_of_rules_lets_requests_go_wrong(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('[{"api": "Heartbeat", "group": "g", "error": "UNKNOWN_MEMBER_ID", "times": 1}]')
    config = BrokerConfig(log_dirs=("data",), pybroker_faults_file=str(path))
    handle = handler_of(dispatcher, BROKER, faults_of(config), trail_of(config))
    connection = ConnectionContext(connection_id=1)
    first, second = (handle(connection, frame_of(HEARTBEAT, 3)) for _ in range(2))
    assert isinstance(first, bytes)
    assert first != second == b"response"
