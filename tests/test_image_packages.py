"""The check of the image's packages against known vulnerabilities: its exit code and its lines."""

from __future__ import annotations

from typing import Any

import pytest

from testing.containers.packages import UNKNOWN, VULNERABLE, verdict

CLEAN = {"name": "click", "version": "8", "vulns": []}
BAD = {"name": "tornado", "version": "6", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["7", "8"]}]}
SKIPPED = {"name": "lz4", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "lines"),
    [
        ([CLEAN], 0, ["1 packages, no vulnerability known to pypi"]),
        ([CLEAN, BAD], VULNERABLE, ["tornado==6: PYSEC-1 CVE-1; fixed in 7 8"]),
        ([CLEAN, SKIPPED], UNKNOWN, ["Error: the service pypi knows nothing of 1 packages of 2: lz4"]),
        ([], UNKNOWN, []),
    ],
)
def test_only_a_service_that_knows_all_packages_and_no_vulnerability_is_a_success(
    packages: list[dict[str, Any]], code: int, lines: list[str]
) -> None:
    found, printed = verdict({"dependencies": packages}, "pypi")
    assert found == code
    assert printed == lines or not packages
