from __future__ import annotations

import os
from pathlib import Path

from pybroker.addresses.local_peer import is_process_here

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
PEER, LOCAL = 40000, 9092


def row(local: str, remote: str, inode: int) -> str:
    return f"   0: {local} {remote} 01 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000000000000000\n"


def proc(root: Path, *, tcp: str = "", tcp6: str | None = "", processes: dict[str, list[str]] | None = None) -> Path:
    (root / "net").mkdir()
    (root / "net" / "tcp").write_text(HEADER + tcp)
    if tcp6 is not None:
        (root / "net" / "tcp6").write_text(HEADER + tcp6)
    for pid, targets in (processes or {}).items():
        (root / pid / "fd").mkdir(parents=True)
        for number, target in enumerate(targets):
            (root / pid / "fd" / str(number)).symlink_to(target)
    return root


CLIENT = row("0100007F:9C40", "0100007F:2384", 4711)
SERVER = row("0100007F:2384", "0100007F:9C40", 4712)
MAPPED = row("0000000000000000FFFF00000100007F:9C40", "0000000000000000FFFF00000100007F:2384", 4711)


def is_here(proc: Path) -> bool:
    return is_process_here(peer_port=PEER, local_port=LOCAL, proc=proc)


def test_a_command_in_the_container(tmp_path: Path) -> None:
    processes = {"1": ["/dev/null"], "77": ["/dev/null", "socket:[4711]"], "self": []}
    assert is_here(proc(tmp_path, tcp=SERVER + CLIENT, processes=processes))


def test_a_command_whose_socket_is_of_ipv6(tmp_path: Path) -> None:
    assert is_process_here(
        peer_port=PEER, local_port=LOCAL, proc=proc(tmp_path, tcp6=MAPPED, processes={"77": ["socket:[4711]"]})
    )


def test_a_forwarder_whose_process_is_outside(tmp_path: Path) -> None:
    assert not is_process_here(
        peer_port=PEER, local_port=LOCAL, proc=proc(tmp_path, tcp=SERVER + CLIENT, tcp6=None, processes={"77": ["socket:[1]"]})
    )


def test_the_brokers_own_end_does_not_count(tmp_path: Path) -> None:
    processes = {str(os.getpid()): ["socket:[4711]"], "77": ["socket:[4712]"]}
    assert not is_here(proc(tmp_path, tcp=SERVER + CLIENT, processes=processes))


def test_a_client_that_is_gone(tmp_path: Path) -> None:
    assert not is_process_here(
        peer_port=PEER, local_port=LOCAL, proc=proc(tmp_path, tcp=SERVER, processes={"77": ["socket:[4711]"]})
    )


def test_a_process_that_ends_meanwhile(tmp_path: Path) -> None:
    root = proc(tmp_path, tcp=CLIENT, processes={"77": ["socket:[4711]"]})
    (root / "76").mkdir()
    assert is_here(root)
