"""The command line of a member of etcd, and what it logs.

Source: etcd's configuration flags, of 3.4 and newer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import socket
from typing import TYPE_CHECKING, Final

from pybroker.quorum.members import CLIENT_PORT_ABOVE

if TYPE_CHECKING:
    from pybroker.quorum.members import Quorum

TOKEN_DIGITS: Final = 22
DIRECTORY: Final = "controller.etcd"
"""The folder of a member's data, in the first log directory."""
MISSING: Final = (
    "the controllers keep the cluster's metadata in etcd, and there is no program `etcd` here: install it (on Debian and Ubuntu: "
    "apt install etcd-server), or set metadata.store to an etcd that runs elsewhere"
)

_LEVELS: Final = {"error": logging.WARNING, "dpanic": logging.ERROR, "panic": logging.ERROR, "fatal": logging.ERROR}
_LEFT_OUT: Final = frozenset({"ts", "caller", "stacktrace"})
_OPTIONS: Final = (
    "--pre-vote",
    "--auto-compaction-mode=revision",
    "--auto-compaction-retention=10000",
    "--quota-backend-bytes=2147483648",
    "--max-txn-ops=4096",
    "--max-request-bytes=8388608",
    "--logger=zap",
    "--log-level=warn",
    "--log-outputs=stderr",
)


def token_of(quorum: Quorum, cluster_id: str | None) -> str:
    """Return the token of a cluster's members: its id or, without one, what only controllers at the same addresses have.

    Kafka's nodes have an id before they start (kafka-storage format); ours get one from the first of them, after etcd runs.
    """
    if cluster_id is not None:
        return cluster_id
    voters = sorted(f"{voter.name}={voter.peer_url}" for voter in quorum.voters)
    return f"pybroker-{hashlib.sha256(','.join(voters).encode()).hexdigest()[:TOKEN_DIGITS]}"


def executable() -> str | None:
    """Return the program, or None if it is not installed."""
    return shutil.which("etcd")


def command(program: str, quorum: Quorum, folder: str, token: str, *, is_joining: bool = False) -> list[str]:
    """Return the command line of this process' member, which keeps its data in `folder`.

    `token` is the same for all members of a cluster: members of another one are refused. `is_joining`: the others run already.
    """
    own = quorum.own
    assert own is not None, "this process is no controller"
    host = _address(quorum.listen_host)
    return [
        program,
        f"--name={own.name}",
        f"--data-dir={folder}",
        f"--listen-peer-urls=http://{host}:{own.port}",
        f"--initial-advertise-peer-urls={own.peer_url}",
        f"--listen-client-urls=http://{host}:{own.port + CLIENT_PORT_ABOVE}",
        f"--advertise-client-urls={own.client_url}",
        f"--initial-cluster={','.join(f'{voter.name}={voter.peer_url}' for voter in quorum.voters)}",
        f"--initial-cluster-token={token}",
        f"--initial-cluster-state={'existing' if is_joining else 'new'}",
        *_OPTIONS,
    ]


def _address(host: str) -> str:
    """Return the address of a host, because etcd listens at addresses only."""
    if not host:
        return "0.0.0.0"  # noqa: S104  as Kafka: an empty host in `listeners` is every interface
    (_, _, _, _, (address, *_)), *_ = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    return f"[{address}]" if ":" in str(address) else str(address)


def logged(line: bytes) -> tuple[int, str]:
    """Return the level and the text of a line that etcd has logged."""
    try:
        fields = json.loads(line)
        level, text = _LEVELS.get(fields.pop("level"), logging.DEBUG), fields.pop("msg")
    except (ValueError, KeyError, AttributeError):
        return logging.DEBUG, line.decode(errors="replace").strip()
    details = ", ".join(f"{name}={value}" for name, value in fields.items() if name not in _LEFT_OUT)
    return level, f"{text} ({details})" if details else str(text)
