"""A metadata store that is killed at any point has every commit that it acknowledged, and no part of another."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from typing import TYPE_CHECKING

from pybroker.metadata.store.sqlite import SqliteStore
from testing.waiting import line_of

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.metadata.store.base import Listing

ROUNDS = 12
KEYS = 5

WRITER = """
import asyncio, sys
from pathlib import Path
from pybroker.metadata.store.sqlite import SqliteStore

async def main(path, keys):
    store = SqliteStore.open(path)
    start = await store.get("key-0")
    number = 0 if start is None else int(start.value)
    print("open", flush=True)
    while True:  # until killed
        number += 1
        await store.commit(puts={f"key-{k}": b"%d" % number for k in range(keys)}, deletes=[f"only-{number - 1}"])
        await store.commit(puts={f"only-{number}": bytes(3000)})
        print(number, flush=True)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def killed_writer(path: Path, lines: int) -> int:
    """Run the writer, kill it after `lines` lines, and return the last number that it acknowledged, or 0."""
    command = [sys.executable, "-c", WRITER, str(path), str(KEYS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            written = [line_of(writer.stdout, "a commit") for _ in range(lines)]
        finally:
            writer.kill()
        written += writer.stdout.readlines()
    return max((int(line) for line in written if line.endswith("\n") and line != "open\n"), default=0)


def test_acknowledged_commits_survive_kill_9(tmp_path: Path) -> None:
    path, seeded = tmp_path / "metadata.db", random.Random(7)
    last = 0
    for lines in [0, 1, *(seeded.randrange(2, 40) for _ in range(ROUNDS))]:
        acknowledged = killed_writer(path, lines)

        async def read() -> Listing:
            store = SqliteStore.open(path)
            listing = await store.list()
            await store.close()
            return listing

        entries, revision = asyncio.run(read())
        numbers = {int(entry.value) for entry in entries if entry.key.startswith("key-")}
        assert len(numbers) <= 1, "a commit is whole or absent"
        number = numbers.pop() if numbers else 0
        assert number >= max(acknowledged, last)
        assert revision == max((entry.revision for entry in entries), default=0)
        assert len(entries) in {0, KEYS, KEYS + 1}
        last = number
    assert last > ROUNDS
