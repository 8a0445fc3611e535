"""A changed setting reaches the sockets before the request that changed it gets its response."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.dynamic_settings import DynamicSettings, network_limits
from pybroker.config.broker import BrokerConfig
from pybroker.config.hosts import HostLookups
from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import configs_key, encode_configs
from pybroker.metadata.image import BROKER_KIND, ConfigResource
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from testing.scenes.members import add_live_broker
from testing.waiting import turned_until

KEY = "max.connections.per.ip.overrides"
OF_ALL = ConfigResource(BROKER_KIND, "")
AT_START, WAIT_S = "server.example:1", 10.0
ADDRESSES = {"client.example": "192.0.2.7", "late.example": "192.0.2.8"}


class Scene:
    """A controller whose settings sockets follow, and a server of names that is as slow as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)
        config = BrokerConfig(node_id=1, max_connections_per_ip_overrides=AT_START)
        self.asked: list[str] = []
        self.responds = threading.Event()
        self.responds.set()
        self.store = MemoryStore()
        lookups = HostLookups({AT_START: {"192.0.2.1": 1}})
        self.controller = Controller(self.store, config, broker_id=BrokerId(1), hosts=lookups)
        self.network: Any = SimpleNamespace(limits=network_limits(config, {"192.0.2.1": 1}))

    async def start(self) -> Scene:
        await self.controller.start("cluster-id")
        await add_live_broker(self.controller, BrokerRegistration(broker_id=BrokerId(1), endpoints={}))
        others: Any = SimpleNamespace(config=self.controller.config, reconfigure=lambda _: None)
        self.controller.subscribe(DynamicSettings(self.controller, others, others, self.network))
        return self

    async def change(self, *edits: Edit) -> None:
        assert await self.controller.alter_configs([ConfigChange(resource=OF_ALL, edits=edits)]) == [None]

    async def change_elsewhere(self, **values: str) -> None:
        """Change the store as another broker does, which looks up nothing here."""
        texts = {name.replace("_", "."): text for name, text in values.items()}
        await self.store.commit(puts={configs_key(OF_ALL): encode_configs(texts)})

    @property
    def limits(self) -> dict[str, int]:
        return dict(self.network.limits.max_connections_per_ip_overrides)

    def _look_up(self, host: str, *_: object, **__: object) -> list[object]:
        assert threading.current_thread() is not threading.main_thread()
        assert self.responds.wait(WAIT_S)
        self.asked.append(host)
        if host not in ADDRESSES:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", (ADDRESSES[host], 0))]


async def test_limits_by_host_are_in_force_when_the_client_has_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await Scene(monkeypatch).start()
    await scene.change(Edit(KEY, Operation.SET, "client.example:5"))
    assert scene.limits == {"192.0.2.7": 5}
    await scene.change(Edit("max.connections", Operation.SET, "50"))
    assert (scene.limits, scene.network.limits.max_connections) == ({"192.0.2.7": 5}, 50)
    await scene.change(Edit(KEY, Operation.DELETE, ""))
    assert scene.limits == {"192.0.2.1": 1}, "the names of the start were looked up at the start"
    assert scene.asked == ["client.example"]


async def test_the_limits_before_stay_while_hosts_are_looked_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = await Scene(monkeypatch).start()
    scene.responds.clear()
    await scene.change_elsewhere(max_connections_per_ip_overrides="late.example:7", max_connections="50")
    assert (scene.limits, scene.network.limits.max_connections) == ({"192.0.2.1": 1}, 50)
    scene.responds.set()
    await turned_until(lambda: scene.limits == {"192.0.2.8": 7}, "the new limits")
    await scene.change_elsewhere(max_connections_per_ip_overrides="nowhere:7", max_connections="60")
    await turned_until(lambda: scene.limits == {}, "no limits")
    assert scene.network.limits.max_connections == 60
    assert "'nowhere' has no address" in caplog.text
