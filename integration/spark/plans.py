"""Settings of Spark that make short jobs cheap: most of their processor time is that of plans."""

from __future__ import annotations

import sys
from typing import Final

INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings with which Spark interprets its plans, and does not plan the rest of a query again after each stage.

An audit of some records takes a fifth less than with generated code, most of which runs once, and a third less again without new
plans. The tests of the pages' examples, of `test_standalone.py`, and all that run a job in their own process except for passes of
audits, run generated code and adaptive plans.
"""


def interpreted_job(job: str, *arguments: str) -> list[str]:
    """Return the command of a job, `pybroker spark JOB ...`, that interprets its plans."""
    settings = [part for name, value in INTERPRETED.items() for part in ("--conf", f"{name}={value}")]
    return [sys.executable, "-m", "pybroker", "spark", job, *arguments, *settings]
