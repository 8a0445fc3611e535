"""Brokers of a cluster that a test has only as entries of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.member_entries import encode_session, session_key
from pybroker.metadata.members import BrokerSession

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.members import BrokerRegistration


async def add_live_broker(controller: Controller, registration: BrokerRegistration) -> None:
    """Register a broker, and make it live until the test ends."""
    await controller.register_broker(registration)
    life = BrokerSession(directory=f"directory-{registration.broker_id}", host="test", started_ms=0)
    await controller.commit(puts={session_key(registration.broker_id): encode_session(life)})
