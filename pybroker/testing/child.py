"""The program of a broker that is a process of a test: `python -m pybroker.testing.child DIRECTORY OPTION...`.

The options are those of `pybroker start`. The process of the test removes the directory; this one does if that one was killed.
"""

from __future__ import annotations

import os
import shutil
import sys

from pybroker.cli.main import main

if __name__ == "__main__":
    directory = sys.argv.pop(1)
    sys.argv.insert(1, "start")
    parent = os.getppid()
    try:
        main()
    finally:
        if os.getppid() != parent:
            shutil.rmtree(directory, ignore_errors=True)
