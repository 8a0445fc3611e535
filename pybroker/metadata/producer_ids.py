"""Producer ids that never repeat.

Idea
    A broker takes blocks of 1,000 ids: the store's counter durably moves past a block before the first id of the
    block is used. A broker that dies loses the rest of its block, which costs nothing: there are 2**63 ids.

Source: ProducerIdManager, ProducerIdControlManager; KIP-730.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pybroker.metadata.entries import PRODUCER_IDS_KEY
from pybroker.metadata.store.base import ABSENT, Conflict, Store, StoreError
from pybroker.model import ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError

BLOCK_SIZE: Final = 1000


class ProducerIds:
    """The producer ids that this broker gives to clients."""

    __slots__ = ("_block", "_one_refill", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._block = iter(range(0))
        self._one_refill = asyncio.Lock()

    async def next(self) -> ProducerId:
        """Return an id that was never used. Waits for the store once in 1,000 calls.

        Raises COORDINATOR_LOAD_IN_PROGRESS, which clients retry, if the store cannot be written; Kafka's brokers send
        this code if their controller does not give them a block.
        """
        producer_id = next(self._block, None)
        while producer_id is None:
            async with self._one_refill:
                producer_id = next(self._block, None)  # another caller may have refilled it meanwhile
                if producer_id is None:
                    try:
                        self._block = iter(await self.allocate_block())
                    except StoreError as error:
                        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
                    producer_id = next(self._block, None)
        return ProducerId(producer_id)

    async def allocate_block(self) -> range:
        """Take BLOCK_SIZE ids out of the store for good. Raises StoreError."""
        while True:
            entry = await self._store.get(PRODUCER_IDS_KEY)
            first, revision = (0, ABSENT) if entry is None else (int(entry.value), entry.revision)
            following = first + BLOCK_SIZE
            outcome = await self._store.commit(puts={PRODUCER_IDS_KEY: b"%d" % following}, compare={PRODUCER_IDS_KEY: revision})
            if not isinstance(outcome, Conflict):
                return range(first, following)
