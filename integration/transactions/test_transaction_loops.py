"""Short loops that consume, transform and produce. Longer ones: `python -m integration.transactions.transaction_loops`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from integration.transactions.transaction_loops import CLIENTS, Size, loop
from testing.process.broker import external_bootstrap

SIZE = Size(transactions=10, kills=1, timeouts=1, instances=1)

pytestmark = pytest.mark.skipif(external_bootstrap() is not None, reason="needs a broker that it may kill")


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "java-3.9.2-consumer"])
def test_a_loop_is_exact_over_aborts_timeouts_fencing_and_kills(client: str, tmp_path: Path) -> None:
    if client.startswith("java-") and (shutil.which("javac") is None or shutil.which("mvn") is None):
        pytest.skip("needs a Java compiler, and Maven for the jars")
    result = loop(client, tmp_path, 1, SIZE)
    assert result.problems == []
    assert result.events == {"kills": 1, "timeouts": 1, "second instances": 1}
