"""A process that holds namespaces, and what is mounted in them, for as long as a test needs them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from testing.waiting import line_of

MOUNTED = "mounted"
"""The line that the command writes when everything is there; then it reads its stdin until that ends."""


@contextlib.contextmanager
def held(command: Sequence[str], what: str, needs: str) -> Iterator[int]:
    """Start the command, and yield its process id when it has written MOUNTED. Its namespaces end with the block.

    Skips the test where a program of util-linux, which `needs` names, is missing, or where the machine forbids `what`.
    """
    try:
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        pytest.skip(f"needs {needs}, of util-linux")
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder:  # closes its stdin, which ends it
        line = line_of(holder.stdout, what).strip()
        if line != MOUNTED:
            pytest.skip(f"cannot make {what} here: {line}")
        yield holder.pid
