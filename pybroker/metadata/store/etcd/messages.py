"""The requests and responses of etcd's v3 JSON gateway that the store uses: bytes are base64, int64 is text, zero is left out.

Source: etcd's rpc.proto and its api_grpc_gateway.md.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybroker.metadata.store.base import ABSENT
from pybroker.metadata.store.renewal import Lease

RANGE: Final = "/v3/kv/range"
PUT: Final = "/v3/kv/put"
TXN: Final = "/v3/kv/txn"
COMPACT: Final = "/v3/kv/compaction"
WATCH: Final = "/v3/watch"
LEASE_GRANT: Final = "/v3/lease/grant"
LEASE_RENEWAL: Final = "/v3/lease/keepalive"
LEASE_END: Final = "/v3/lease/revoke"
NO_LEASE: Final = "0"

Message = dict[str, Any]


class Item(NamedTuple):
    """A key with its value and the revision that put it; `value` is None where the key was deleted."""

    key: str
    value: bytes | None
    revision: int


class WatchResponse(NamedTuple):
    """A message of a watch: changes, or its end (`is_over`) and the reason; after a compaction it cannot be resumed."""

    revision: int
    items: Sequence[Item]
    is_over: bool
    is_compacted: bool
    reason: str


def text(value: bytes) -> str:
    """Return bytes as JSON has them."""
    return b64encode(value).decode()


def end_of(prefix: str) -> str:
    """Return the first key behind all that begin with `prefix`, as JSON has it."""
    last = prefix.encode()
    return text(last[:-1] + bytes([last[-1] + 1]))


def read(key: str) -> Message:
    """Return a request for one key."""
    return {"key": text(key.encode())}


def read_all(prefix: str, *, after: str, count_max: int, revision: int, keys_only: bool) -> Message:
    """Return a request for the keys behind `after` that begin with `prefix`, as of a revision; 0 is the newest."""
    first = after.encode() + b"\0" if after else prefix.encode()
    return {
        "key": text(first),
        "range_end": end_of(prefix),
        "limit": str(count_max),
        "revision": str(revision),
        "keys_only": keys_only,
    }


def items_of(response: Message) -> list[Item]:
    """Return what a request for keys has found."""
    return [_item(found, is_deleted=False) for found in response.get("kvs", ())]


def has_more(response: Message) -> bool:
    """Return whether a request for keys was cut by its limit."""
    return bool(response.get("more", False))


def revision_of(response: Message) -> int:
    """Return the revision of the store when it responded."""
    return int(response["header"]["revision"])


def put_alone(key: str, value: bytes, lease_id: str = NO_LEASE) -> Message:
    """Return a request that puts a key, which exists as long as the lease, if there is one."""
    return {"key": text(key.encode()), "value": text(value), "lease": lease_id}


def put(key: str, value: bytes, lease_id: str = NO_LEASE) -> Message:
    """Return the operation that puts a key."""
    return {"request_put": put_alone(key, value, lease_id)}


def delete(key: str) -> Message:
    """Return the operation that deletes a key."""
    return {"request_delete_range": {"key": text(key.encode())}}


def read_in_txn(key: str) -> Message:
    """Return the operation that reads a key."""
    return {"request_range": {"key": text(key.encode())}}


def has_value(key: str, value: bytes) -> Message:
    """Return the comparison with the value of a key."""
    return {"key": text(key.encode()), "target": "VALUE", "result": "EQUAL", "value": text(value)}


def has_revision(key: str, revision: int) -> Message:
    """Return the comparison with the revision of a key; ABSENT: it does not exist."""
    assert ABSENT == 0, "etcd's number for a key that does not exist"
    return {"key": text(key.encode()), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def txn(compare: Sequence[Message], success: Sequence[Message], failure: Sequence[Message]) -> Message:
    """Return a transaction, which is one revision."""
    return {"compare": compare, "success": success, "failure": failure}


def changes(puts: Mapping[str, bytes], deletes: Collection[str], lease_id: str) -> list[Message]:
    """Return the operations of a commit."""
    return [put(key, value, lease_id) for key, value in puts.items()] + [delete(key) for key in deletes]


def new_lease(ttl_s: int) -> Message:
    """Return a request for a lease."""
    return {"TTL": str(ttl_s)}


def lease(lease_id: str) -> Message:
    """Return a request that renews a lease, or ends it."""
    return {"ID": lease_id}


def lease_of(response: Message) -> Lease:
    """Return the lease that was granted or renewed; it lives for 0 s if etcd does not know it."""
    return Lease(str(response["ID"]), int(response.get("TTL", 0)))


def nested(transaction: Message) -> Message:
    """Return a transaction as an operation of another one."""
    return {"request_txn": transaction}


def succeeded(response: Message) -> bool:
    """Return whether all comparisons of a transaction held."""
    return bool(response.get("succeeded", False))


def nested_response(response: Message) -> Message:
    """Return the response of the one nested transaction."""
    nested_one: Message = response["responses"][0]["response_txn"]
    return nested_one


def read_by_txn(response: Message) -> Item | None:
    """Return what a transaction has read by its one operation."""
    return next(iter(items_of(response["responses"][0]["response_range"])), None)


def watch(prefix: str, *, start: int) -> Message:
    """Return a watch of all keys that begin with `prefix`, from the revision `start` on."""
    return {"create_request": {"key": text(prefix.encode()), "range_end": end_of(prefix), "start_revision": str(start)}}


def watch_response(message: Message) -> WatchResponse:
    """Return what a watch has delivered."""
    events = [_item(event["kv"], is_deleted=event.get("type") == "DELETE") for event in message.get("events", ())]
    compacted = int(message.get("compact_revision", 0)) > 0
    is_over, reason = compacted or bool(message.get("canceled", False)), str(message.get("cancel_reason", ""))
    return WatchResponse(revision_of(message), events, is_over, compacted, reason)


def _item(found: Message, *, is_deleted: bool) -> Item:
    value = None if is_deleted else b64decode(found.get("value", ""))
    return Item(b64decode(found["key"]).decode(), value, int(found["mod_revision"]))
