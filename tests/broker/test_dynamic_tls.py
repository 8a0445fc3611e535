"""AlterConfigs of the TLS of a listener: what cannot be used is refused, without a secret, and nothing of it is stored."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from pybroker.broker.dynamic_settings import DynamicSettings
from pybroker.broker.listening import TlsReload, listeners_of
from pybroker.config.load import load
from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.controller import Controller
from pybroker.metadata.image import BROKER_KIND, ConfigResource
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.security.tls import stores as reading
from pybroker.security.tls.certificates import issued
from testing.clients.certificates import HOSTS, Stores
from testing.scenes.members import add_live_broker

SECRET = "correct-horse"
OF_ONE, OF_ALL = ConfigResource(BROKER_KIND, "1"), ConfigResource(BROKER_KIND, "")
PREFIX = "listener.name.ssl."


class Scene:
    """A controller of a broker that listens with TLS, and stores for its next certificate."""

    def __init__(self, folder: Path) -> None:
        self.stores = Stores(folder)
        pair = issued(self.stores.authority, "CN=broker", HOSTS)
        encryption = BestAvailableEncryption(SECRET.encode())
        keys = pkcs12.serialize_key_and_certificates(b"k", pair.key, pair.certificate, None, encryption)
        self.p12 = self.stores.write("next.p12", keys)
        self.encrypted = self.stores.pem("next", pair, SECRET)
        config = load(overrides={"node.id": "1", **self.stores.of_broker()}).config
        listeners = listeners_of(config)
        self.tls = listeners[0].tls
        reload = TlsReload(listeners)
        self.controller = Controller(MemoryStore(), config, broker_id=BrokerId(1))
        self.controller.check = reload.check
        others: Any = SimpleNamespace(config=config, reconfigure=lambda _: None)
        self.follow = DynamicSettings(self.controller, others, others, None, reload)

    async def start(self) -> Scene:
        await self.controller.start("cluster-id")
        await add_live_broker(self.controller, BrokerRegistration(broker_id=BrokerId(1), endpoints={}))
        self.controller.subscribe(self.follow)
        return self

    async def change(
        self, values: Mapping[str, str], resource: ConfigResource = OF_ONE, *, validate_only: bool = False
    ) -> str | None:
        """Set settings of the listener. Return the message of the refusal, or None."""
        edits = [Edit(f"{PREFIX}{name}", Operation.SET, text) for name, text in values.items()]
        change = ConfigChange(resource=resource, edits=edits)
        (error,) = await self.controller.alter_configs([change], validate_only=validate_only)
        if error is None:
            return None
        assert error.code == ErrorCode.INVALID_REQUEST
        assert SECRET not in error.message
        return error.message

    @property
    def stored(self) -> dict[str, str]:
        image = self.controller.image
        return {**image.configs_of(BROKER_KIND, ""), **image.configs_of(BROKER_KIND, "1")}


@pytest.mark.parametrize("resource", [OF_ONE, OF_ALL], ids=["one", "all"])
@pytest.mark.parametrize("validate_only", [False, True], ids=["change", "validation"])
async def test_a_store_that_cannot_be_used_is_refused(tmp_path: Path, resource: ConfigResource, *, validate_only: bool) -> None:
    scene = await Scene(tmp_path).start()
    assert scene.tls is not None
    before, wrong = scene.tls.context, f"{SECRET}?"
    as_p12 = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": scene.p12}
    for values, name, reason in (
        ({"ssl.keystore.location": "/nope.p12"}, "ssl.keystore.location", "cannot be read: No such file"),
        ({**as_p12, "ssl.keystore.password": wrong}, "ssl.keystore.password", "does not open"),
        ({"ssl.keystore.location": scene.encrypted, "ssl.key.password": wrong}, "ssl.key.password", "does not decrypt the key"),
        ({"ssl.truststore.location": "/nope.pem"}, "ssl.truststore.location", "cannot be read: No such file"),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password", "does not belong to a PEM file"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "ssl.principal.mapping.rules", ""),
    ):
        message = await scene.change({"max.connections": "50", **values}, resource, validate_only=validate_only)
        assert message is not None, values
        assert f"configuration {PREFIX}{name}: " in message
        assert reason in message
    assert scene.stored == {}
    assert scene.tls.context is before


async def test_a_store_that_can_be_used_is_read_in_a_thread_and_then_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[bool] = []
    read = reading._content

    def seen(*arguments: Any) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return read(*arguments)

    scene = await Scene(tmp_path).start()
    assert scene.tls is not None
    monkeypatch.setattr(reading, "_content", seen)
    values = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": scene.p12, "ssl.keystore.password": SECRET}
    before = scene.tls.context
    assert await scene.change(values, validate_only=True) is None
    assert threads
    assert not any(threads), "the loop read a store"
    assert scene.stored == {}
    assert await scene.change(values) is None
    assert scene.stored == {f"{PREFIX}{name}": text for name, text in values.items()}
    assert scene.tls.context is not before


async def test_a_change_of_other_settings_reads_no_store(tmp_path: Path) -> None:
    scene = await Scene(tmp_path).start()
    scene.stores.write("broker.pem", b"nonsense")
    assert await scene.change({"max.connections": "50"}) is None
    assert await scene.change({"ssl.client.auth": "required"}) is not None
    assert scene.stored == {f"{PREFIX}max.connections": "50"}
