"""Changes of ACLs and of quotas: entries whose ids follow from their contents, and one more entry that every change puts.

Each change compares the entry that the change before has put. So the changes are in an order, and none is lost, whichever brokers
make them.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pybroker.failures import drop_frames
from pybroker.metadata.store.base import Conflict, OutcomeUnknownError, StoreError
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pybroker.metadata.controller import Controller

_ID_BYTES: Final = 16


def content_id(content: bytes) -> str:
    """Return the id of an entry with this content: 22 characters of base64."""
    return urlsafe_b64encode(sha256(content).digest()[:_ID_BYTES]).rstrip(b"=").decode()


async def commit_next(
    controller: Controller, prefix: str, *, since: int, puts: Mapping[str, bytes], deletes: Iterable[str]
) -> bool:
    """Commit a change that was computed from the image. Returns whether it was the newest one.

    `puts` and `deletes` have entries by their ids. `prefix` is the key of the entry that every change puts, and the beginning of
    theirs; `since` is the revision at which the image has it. Raises KafkaError: KAFKA_STORAGE_ERROR if nothing was changed,
    REQUEST_TIMED_OUT if that is not known.
    """
    entries = {prefix + key: value for key, value in puts.items()}
    entries[prefix] = b"%d" % controller.broker_id
    try:
        outcome = await controller.commit(puts=entries, deletes=[prefix + key for key in deletes], compare={prefix: since})
    except OutcomeUnknownError as error:
        raise drop_frames(KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))) from None
    except StoreError as error:
        raise drop_frames(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))) from None
    return not isinstance(outcome, Conflict)
