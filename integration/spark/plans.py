"""Settings of Spark that make short jobs cheap: most of their processor time is that of plans."""

from __future__ import annotations

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
INTERPRETED_OPTIONS: Final = tuple(part for name, value in INTERPRETED.items() for part in ("--conf", f"{name}={value}"))
"""The same for a command of `pybroker spark`."""
