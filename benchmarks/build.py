"""Reports which build of the records a benchmark measures: the native one or the pure Python twins.

A broker that a benchmark starts has the benchmark's interpreter and working directory, and so the same build.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pybroker
from pybroker import native
from pybroker.records import kernels


def announce() -> None:
    """Print which build is measured; exit when that is the pure one and no `PYBROKER_PURE=1` asked for it."""
    folder = Path(pybroker.__file__).parent
    if not kernels.IS_NATIVE and native.is_wanted():
        sys.exit(
            f"Error: the native extension is not built in {folder}/records, and pure Python is several times slower.\n"
            f"Build it in place (needs a C compiler): {sys.executable} -m pip install --editable .\n"
            "To measure pure Python all the same: PYBROKER_PURE=1"
        )
    kind = "native extension" if kernels.IS_NATIVE else "PURE PYTHON"
    load = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    print(f"pybroker in {folder}, records: {kind}; CPython {platform.python_version()}; load before {load}", flush=True)
