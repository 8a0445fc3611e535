"""Makes a broker a live member of its cluster: one entry, as long as its session with the store lasts.

A broker that is alone has no more of a cluster than this. `control` is what several brokers have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pybroker.metadata.member_entries import CONTROLLER_KEY, encode_session, session_key
from pybroker.metadata.store.base import ABSENT, Conflict, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection

    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.members import BrokerSession
    from pybroker.metadata.store.base import Session, Store
    from pybroker.model import BrokerId


async def go_live(controller: Controller, store: Store, life: BrokerSession, config: BrokerConfig) -> Session:
    """Open a session, and put the entry of this life of the broker. Raises StoreError, also if another process is the broker."""
    key = session_key(controller.broker_id)
    ttl_ms = config.broker_session_timeout_ms
    renew_ms = min(config.broker_heartbeat_interval_ms, ttl_ms // 3)  # one that is set as long as a session would lose each
    session = await store.open_session(ttl_ms=ttl_ms, renew_ms=renew_ms)
    try:
        outcome = await controller.commit(puts={key: encode_session(life)}, compare={key: ABSENT}, session=session)
        if isinstance(outcome, Conflict):
            raise StoreError(in_use(controller.broker_id, controller.image.members.sessions.get(controller.broker_id)))
    except StoreError:
        await session.close()
        raise
    return session


async def end_predecessor(controller: Controller, directories: Collection[str]) -> None:
    """End the life of a process that was this broker and has died: only one process at a time has its log directories.

    Raises StoreError, also if another process, with another directory, is the broker.
    """
    members, broker_id = controller.image.members, controller.broker_id
    life = members.sessions.get(broker_id)
    if life is None:
        return
    if life.directory not in directories:
        raise StoreError(in_use(broker_id, life))
    key = session_key(broker_id)
    deletes = [key, CONTROLLER_KEY] if members.controller == broker_id else [key]
    await controller.commit(deletes=deletes, compare={key: life.epoch})


async def announce_stop(controller: Controller, session: Session) -> None:
    """Mark the entry of this broker's life, so that it becomes the leader of nothing any more. Raises StoreError."""
    life = controller.image.members.sessions.get(controller.broker_id)
    if life is not None:
        key = session_key(controller.broker_id)
        value = encode_session(replace(life, is_stopping=True))
        await controller.commit(puts={key: value}, compare={key: life.epoch}, session=session)


def in_use(broker_id: BrokerId, life: BrokerSession | None) -> str:
    """Return why this process cannot be the broker, in one line for a person."""
    where = "another process"
    if life is not None:
        data = life.log_dir or f"the log directory with the id {life.directory}"
        where = f"a process on {life.host} with its data in {data}{f', which listens at {life.address}' if life.address else ''}"
    return (
        f"node.id={broker_id}: is in use by {where}. Stop that process, or give each broker of the cluster a node.id and "
        "log.dirs of its own"
    )
