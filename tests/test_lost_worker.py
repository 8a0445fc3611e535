"""A run of the tests fails when one of its workers ends in the middle of a test; a worker makes further attempts itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testing.places import ROOT

OPTIONS = ["-p", "conftest", "-n", "1", "--dist", "worksteal", "--max-worker-restart", "0", "--reruns", "2", "-r", "R"]


def run(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a source as `make` runs tests: with workers, and with three attempts."""
    file = folder / "test_source.py"
    file.write_text(source)
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *OPTIONS, str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_a_test_that_ends_its_worker_fails_although_further_attempts_are_allowed(tmp_path: Path) -> None:
    ended = run(tmp_path, "import os\ndef test_before(): pass\ndef test_end(): os._exit(1)\ndef test_after(): pass\n")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "::test_end" in ended.stdout.split("FAILURES")[1]


def test_a_worker_counts_the_attempts_of_its_tests(tmp_path: Path) -> None:
    ended = run(tmp_path, "attempts = []\ndef test_third():\n    attempts.append(1)\n    assert len(attempts) == 3\n")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("RERUN ") == 2
