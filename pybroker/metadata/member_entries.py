"""The brokers of the cluster as entries of the store; `entries` lists the keys."""

from __future__ import annotations

import json
from typing import Final

from pybroker.metadata.members import BrokerRegistration, BrokerSession, Endpoint, Members
from pybroker.metadata.store.base import StoreError
from pybroker.model import BrokerId

BROKER_PREFIX: Final = "brokers/"
SESSION_PREFIX: Final = "sessions/"
CONTROLLER_KEY: Final = "controller"
MEMBER_KINDS: Final = frozenset({"brokers", "sessions", "controller"})
"""The parts of keys before the first slash that `MemberChanges` takes."""


def broker_key(broker_id: BrokerId) -> str:
    """Return the key of a broker's registration."""
    return f"{BROKER_PREFIX}{broker_id}"


def session_key(broker_id: BrokerId) -> str:
    """Return the key of a broker's life."""
    return f"{SESSION_PREFIX}{broker_id}"


def encode_broker(broker: BrokerRegistration) -> bytes:
    """Return the value of `broker_key(broker.broker_id)`."""
    return dump({"endpoints": broker.endpoints, "rack": broker.rack})


def decode_broker(broker_id: str, value: bytes) -> BrokerRegistration:
    """Decode what `encode_broker` returns. Raises StoreError if the value has another form."""
    try:
        fields = json.loads(value)
        endpoints = {listener: Endpoint(host, port) for listener, (host, port) in fields["endpoints"].items()}
        return BrokerRegistration(broker_id=BrokerId(int(broker_id)), endpoints=endpoints, rack=fields["rack"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the store's entry of broker {broker_id} cannot be read: {error!r}") from error


def encode_session(session: BrokerSession) -> bytes:
    """Return the value of a broker's `session_key`."""
    return dump(
        {
            "directory": session.directory,
            "host": session.host,
            "started_ms": session.started_ms,
            "log_dir": session.log_dir,
            "address": session.address,
            "is_stopping": session.is_stopping,
        }
    )


def decode_session(broker_id: str, value: bytes, revision: int) -> BrokerSession:
    """Decode what `encode_session` returns. Raises StoreError if the value has another form."""
    try:
        fields = json.loads(value)
        return BrokerSession(
            directory=fields["directory"],
            host=fields["host"],
            started_ms=fields["started_ms"],
            log_dir=fields.get("log_dir", ""),  # processes of an earlier release write none
            address=fields.get("address", ""),
            is_stopping=fields["is_stopping"],
            epoch=revision,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the store's entry of session {broker_id} cannot be read: {error!r}") from error


class MemberChanges:
    """The entries of one change that are about brokers."""

    def __init__(self, members: Members) -> None:
        self._members, self._controller = members, members.controller
        self._registered: dict[BrokerId, BrokerRegistration | None] = {}
        self._sessions: dict[BrokerId, BrokerSession | None] = {}

    def add(self, kind: str, name: str, value: bytes | None, revision: int) -> None:
        """Add a change of an entry of one of MEMBER_KINDS. Raises StoreError if the value has another form."""
        try:
            if kind == "controller":
                self._controller = None if value is None else BrokerId(int(value))
            elif kind == "brokers":
                self._registered[BrokerId(int(name))] = None if value is None else decode_broker(name, value)
            else:
                self._sessions[BrokerId(int(name))] = None if value is None else decode_session(name, value, revision)
        except ValueError as error:
            raise StoreError(f"the store's entry {kind}/{name} cannot be read: {error!r}") from error

    def result(self) -> Members:
        """Return the members after the change; the same object if they did not change."""
        is_same = not self._registered and not self._sessions and self._controller == self._members.controller
        return self._members if is_same else self._members.changed(self._registered, self._sessions, self._controller)


def dump(fields: object) -> bytes:
    """Return the JSON of an entry."""
    return json.dumps(fields, separators=(",", ":")).encode()
