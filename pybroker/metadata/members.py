"""The brokers of a cluster: which are registered, which of them are live, and which one is the controller.

A registration outlives its broker. A life of a broker is an entry of its session with the store, which the store deletes when the
session ends.

Source: BrokerRegistration, ClusterImage; KIP-631, KIP-903.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.model import BrokerId

NO_BROKER_EPOCH: Final = -1


class Endpoint(NamedTuple):
    """The address at which clients reach a broker through one listener."""

    host: str
    port: int


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerRegistration:
    """A broker. `endpoints` are by listener name; a listener that is missing has no fixed address (`api.nodes` explains that).

    `epoch` is the broker epoch, which is new with each life of the broker, NO_BROKER_EPOCH while it is not live. `is_stopping`:
    it moves its leaders away before it stops (Kafka's controlled shutdown), and becomes the leader of nothing.
    """

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    epoch: int = NO_BROKER_EPOCH
    is_stopping: bool = False

    @property
    def is_live(self) -> bool:
        """Whether its session lasts."""
        return self.epoch != NO_BROKER_EPOCH


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerSession:
    """A life of a broker. `epoch` is the broker epoch: the revision of the life's entry.

    `directory` is the id of the broker's first data directory, which one process at a time can have. The others are for a person:
    the `host`, the `log_dir` there, and the `address` of the listener for brokers; empty if the process did not write them.
    """

    directory: str
    host: str
    started_ms: int
    log_dir: str = ""
    address: str = ""
    is_stopping: bool = False
    epoch: int = NO_BROKER_EPOCH


@dataclass(slots=True, frozen=True, kw_only=True)
class Members:
    """All brokers: `registered` and, of them, those that are `live`. `sessions` may be of brokers that are not registered yet.
    `controller` is the elected one, None while there is none.
    """

    registered: Mapping[BrokerId, BrokerRegistration]
    live: Mapping[BrokerId, BrokerRegistration]
    sessions: Mapping[BrokerId, BrokerSession]
    controller: BrokerId | None = None

    def changed(
        self,
        registered: Mapping[BrokerId, BrokerRegistration | None],
        sessions: Mapping[BrokerId, BrokerSession | None],
        controller: BrokerId | None,
    ) -> Members:
        """Return the members after the entries of some of them changed; None is an entry that was deleted."""
        present = {id_: one for id_, one in {**self.registered, **registered}.items() if one is not None}
        lives = {id_: one for id_, one in {**self.sessions, **sessions}.items() if one is not None}
        for broker_id in registered.keys() | sessions.keys():
            if broker_id in present:
                life = lives.get(broker_id, _NO_LIFE)
                present[broker_id] = replace(present[broker_id], epoch=life.epoch, is_stopping=life.is_stopping)
        return Members(
            registered=MappingProxyType(present),
            live=MappingProxyType({broker_id: one for broker_id, one in present.items() if broker_id in lives}),
            sessions=MappingProxyType(lives),
            controller=controller,
        )


_NO_LIFE: Final = BrokerSession(directory="", host="", started_ms=0)
NO_MEMBERS: Final = Members(registered=MappingProxyType({}), live=MappingProxyType({}), sessions=MappingProxyType({}))
