"""The rules of faults, under a name for programs of users."""

from __future__ import annotations

from pybroker.faults.faults import Faults
from pybroker.faults.rule import Rule, RuleError

__all__ = ["Faults", "Rule", "RuleError"]
