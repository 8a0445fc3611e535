"""A signal ends a process that is still starting, wherever it arrives."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

IN_A_COLLECTION: Final = """
import functools, gc, os, signal, time
from pybroker.cli.start import prepare
from pybroker.sharing.turns import garbage
prepare()
garbage.thread_time_ns = functools.partial(sum, filter(None, map(os.kill, [os.getpid()], [signal.SIGTERM])))  # 0; once a signal
gc.callbacks.append(garbage._collection)
gc.collect()
time.sleep(20)
raise SystemExit("it went on")
"""

IN_THE_CODE: Final = """
import os, signal
from pybroker.cli.start import prepare
prepare()
os.kill(os.getpid(), signal.SIGTERM)
raise SystemExit("it went on")
"""


@pytest.mark.parametrize("script", [IN_A_COLLECTION, IN_THE_CODE])
def test_a_signal_ends_the_start_also_while_garbage_is_collected(script: str) -> None:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
