"""A run of the tests fails when one of its workers ends in the middle of a test; a worker makes further attempts itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testing.places import ROOT

OPTIONS = ["-p", "conftest", "-n", "2", "--dist", "worksteal", "--max-worker-restart", "0", "--reruns", "2"]


def test_a_test_that_ends_its_worker_fails_although_further_attempts_are_allowed(tmp_path: Path) -> None:
    file = tmp_path / "test_end.py"
    file.write_text("import os\ndef test_before(): pass\ndef test_end(): os._exit(1)\ndef test_after(): pass\n")
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *OPTIONS, str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "::test_end" in run.stdout.split("FAILURES")[1]


def test_a_worker_counts_the_attempts_of_its_tests(tmp_path: Path) -> None:
    file = tmp_path / "test_attempts.py"
    file.write_text("attempts = []\ndef test_third():\n    attempts.append(1)\n    assert len(attempts) == 3\n")
    command = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", *OPTIONS, "-r", "R", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("RERUN ") == 2
