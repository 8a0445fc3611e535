"""The etcd beside a controller: what keeps it from running is one error."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pybroker.quorum import member as module
from pybroker.quorum.member import Member, QuorumError
from pybroker.quorum.members import CLIENT_PORT_ABOVE, Quorum, Voter


def member(folder: Path, port: int) -> Member:
    own = Voter("1", "127.0.0.1", port)
    return Member(Quorum(voters=(own,), own=own, listen_host="127.0.0.1", is_broker=True), str(folder), "token")


@pytest.mark.parametrize(("below", "whom"), [(0, "the other controllers"), (CLIENT_PORT_ABOVE, "brokers")])
async def test_a_port_that_is_taken_is_an_error_with_the_property(
    below: int, whom: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "executable", lambda: "/nowhere/etcd")
    monkeypatch.setattr(module, "PORTS_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(QuorumError) as refused:
            await member(tmp_path, port - below).start()
    words = f"listeners: controller 1 cannot listen at 127.0.0.1:{port} for {whom}: Address already in use. Another program"
    assert str(refused.value).startswith(words)


async def test_a_missing_program_is_an_error_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "executable", lambda: None)
    with pytest.raises(QuorumError, match="there is no program `etcd` here: install it"):
        await member(tmp_path, 1).start()
